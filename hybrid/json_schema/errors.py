"""Why a schema is refused: the keyword, where it stands, and the way out.

What: `SchemaRefused`, which every module of `hybrid.json_schema` raises.
When: for what is beyond the bounds, not supported, invalid, or satisfied by nothing. Nothing is left out of a
schema without a word: it is refused, or relaxed by name on request.
"""

from __future__ import annotations

from typing import Literal

from equivalence.errors import GrammarError

Kind = Literal["unsupported", "bounds", "invalid", "unsatisfiable"]

_WAYS_OUT: dict[str, str] = {
    "unsupported": "remove it, pass relax=True to leave it out by name, or use semantics='xgrammar'",
    "bounds": "simplify it, raise Budget.states, or pass relax=True to leave it out by name",
    "invalid": "correct the schema",
    "unsatisfiable": "correct the schema",
}


class SchemaRefused(GrammarError):
    """A JSON schema that cannot be compiled exactly.

    Attributes:
        kind: "unsupported" (a keyword, or a use of it, that is not implemented), "bounds" (its automaton
            would be too large), "invalid" (the schema itself is wrong) or "unsatisfiable" (no instance is
            valid).
        keyword: the keyword; "" where no single one is to blame.
        pointer: the JSON pointer of the subschema that has it.
        fault: what is wrong, without the ways out, which are those of a program and not of its users.
    """

    def __init__(self, kind: Kind, keyword: str, pointer: str, why: str) -> None:
        where = f" at {pointer or 'the root'}"
        named = f"the keyword {keyword!r}{where}" if keyword else f"the schema{where}"
        self.fault = f"{named} {why}"
        super().__init__(f"{self.fault}; {_WAYS_OUT[kind]}")
        self.kind, self.keyword, self.pointer, self.why = kind, keyword, pointer, why
