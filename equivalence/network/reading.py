"""Reading XGrammar's serialised grammars.

What: the expressions of a grammar as flat arrays, its rules as lists.
When: first step of `build_network`.
Limits: the layouts of `equivalence.network.layouts`, `GrammarError` for others.

The expressions are nearly all of the text; compiled code reads them, and `json.loads` the rest.

XGrammar takes six times as long to serialise a grammar as to print it, which for most JSON schemas tells the
same (`equivalence.network.printed`): `read_printed` reads that where it does, and the serialised form only
for who asks for it whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.network.dialect import refuse_other_meaning
from equivalence.network.expressions import endless_rule, types_among
from equivalence.network.integers import read_integers
from equivalence.network.layouts import own_layout, refuse_unread
from equivalence.network.printed import read_rules
from equivalence.network.serial import (
    BODY,
    DATA,
    MARKERS,
    ROOT,
    RULES,
    SERIALIZATION_VERSION,
    STARTS,
    VERSION_FIELD,
    plain_rule,
)

# A quote inside a JSON string is escaped, so these bytes occur nowhere else.
_BEFORE_DATA, _BEFORE_STARTS = f'"{DATA}":['.encode(), f'],"{STARTS}":['.encode()


FIRST_RULE = "root"
"""What XGrammar's converter of schemas calls the rule that a grammar begins with."""

_PROBE = r"""root ::= ("" | ("a\"\'\?\\\a\b\f\n\r\t\v\e\x7f~ {}()[]|\u0100\U00010000" b-1.c_D{2, 3} b-1.c_D{0, -1}))
b-1.c_D ::= (([a-z\-\][\"^\0\x80-\u0fff]*) | ([^\0-\x1f\"\\\U00010000-\U0010ffff] b-1.c_D)) (=([ \n]))
"""  # noqa: E501 - as it is printed
"""A grammar as the XGrammar prints it whose printed texts are read here."""


class PlainRules(Sequence[list[Any]]):
    """Rules without bounds, captures and the like, each of which is written out when it is asked for.

    To write out all of them took 2% of the time to a schema's first mask, and hardly anybody asks.

    Args:
        names: of the rules.
        bodies: int64, their expressions.
    """

    def __init__(self, names: list[str], bodies: NDArray[np.int64]) -> None:
        self.names, self.bodies = names, bodies

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return plain_rule(self.names[number], int(self.bodies[number]))


class ReadGrammar(NamedTuple):
    """A serialised grammar.

    Attributes:
        features: the serialised form without the expressions.
        data, starts: int64, the expressions (type, length, body) and where each begins.
        is_escaped: whether byte 255 of text is read twice (`equivalence.network.token_ids`).
        printed: the grammar, where something else than its serialised form was read.
        edges: int64[n, 5], the automata of rules whose body is -1, columns as `edges.FIELDS`; None: every
            rule has a body.
        n_states: states there are then, two for each rule first.
    """

    features: dict[str, Any]
    data: NDArray[np.int64]
    starts: NDArray[np.int64]
    is_escaped: bool = False
    printed: Any = None
    edges: NDArray[np.int64] | None = None
    n_states: int = 0

    @property
    def types(self) -> set[int]:
        """The types of all expressions, read anew each time."""
        return types_among(self.data, self.starts)

    @property
    def endless_rule(self) -> int:
        """A rule that is nothing but a repeat of itself, maybe by way of others; -1: none is."""
        if self.edges is not None:
            return -1  # a rule that is a repeat repeats one that is an automaton, and reads something
        return endless_rule(self.data, self.starts, self.bodies)

    @property
    def rules(self) -> Sequence[Any]:
        """The rules, each with the columns that `equivalence.network.serial` names."""
        rules: Sequence[Any] = self.features[RULES]
        return rules

    @property
    def bodies(self) -> NDArray[np.int64]:
        """int64, the expression that each rule is."""
        rules = self.rules
        if isinstance(rules, PlainRules):
            return rules.bodies
        return np.array([rule[BODY] for rule in rules], np.int64)

    @property
    def root(self) -> int:
        """Number of the root rule."""
        return int(self.features[ROOT])

    def refuse_unread(self, types: set[int] | None = None) -> None:
        """As `equivalence.network.layouts.refuse_unread`; `types` where they are known."""
        refuse_unread(self.features, max(self.types if types is None else types, default=0))

    def whole(self) -> dict[str, Any]:
        """The serialised form with its expressions, as `json.loads` gives it; rules are not copied."""
        return self.as_read() if self.printed is None else _read_serialised(self.printed).as_read()

    def as_read(self) -> dict[str, Any]:
        """The same with the expressions that were read, for who only asks what rules do: of a printed grammar
        they are numbered otherwise, and nothing else of it is known."""
        # lists of integers are made in a fifth of the time that reading them as JSON takes
        own = {RULES: list(self.rules), DATA: self.data.tolist(), STARTS: self.starts.tolist()}
        return {**self.features, **own}


def read_grammar(grammar: Any) -> ReadGrammar:
    """Read an `xgrammar.Grammar`, or its serialised form as `json.loads` gives it; or keep what is read.

    Raises:
        GrammarError: it is serialised in a layout that is not known here.
        UnsupportedGrammar: something in it has no place in the layout that is read here.
    """
    read = read_as_far(grammar)
    read.refuse_unread()
    return read


def read_as_far(grammar: Any) -> ReadGrammar:
    """As `read_grammar`, which refuses what could not be read: for who asks nothing of that.

    A grammar with an attribute `read` has been read already.

    Raises:
        GrammarError: it is serialised in a layout that is not known here.
    """
    if isinstance(grammar, ReadGrammar):
        return grammar
    read = None if isinstance(grammar, dict) else getattr(grammar, "read", None)
    return read if isinstance(read, ReadGrammar) else _read_serialised(grammar)


def _read_serialised(grammar: Any) -> ReadGrammar:
    """Read the serialised form of a grammar, or what `json.loads` gives of it."""
    features: dict[str, Any]
    if isinstance(grammar, dict):
        features = grammar
    else:
        text = grammar.serialize_json().encode()
        at = text.find(_BEFORE_DATA)
        if at >= 0:
            data, end = read_integers(text, at + len(_BEFORE_DATA))
            if text.startswith(_BEFORE_STARTS, end):
                starts, end = read_integers(text, end + len(_BEFORE_STARTS))
                features = json.loads(text[:at] + b'"read":[' + text[end:])
                del features["read"]
                return ReadGrammar(own_layout(features), data, starts)
        features = json.loads(text)
    features = own_layout(features)
    rest = {name: value for name, value in features.items() if name not in (DATA, STARTS)}
    return ReadGrammar(rest, np.array(features[DATA], np.int64), np.array(features[STARTS], np.int64))


def read_printed(grammar: Any, has_caret: bool) -> ReadGrammar | None:
    """Read what XGrammar prints of a grammar that its converter has made of a JSON schema; None where that
    does not tell all of it, or XGrammar prints otherwise than is known here.

    Args:
        grammar: an `xgrammar.Grammar` none of whose texts holds a byte 0.
        has_caret: whether a class may hold a caret first.
    """
    found = read_rules(str(grammar).encode(), has_caret) if _prints_as_known() else None
    if found is None or FIRST_RULE not in found[0]:
        return None
    names, bodies, data, starts = found
    features = {
        VERSION_FIELD: SERIALIZATION_VERSION, RULES: PlainRules(names, bodies),
        ROOT: names.index(FIRST_RULE), MARKERS: [],
    }  # fmt: skip
    return ReadGrammar(features, data, starts, printed=grammar)


@cache
def _prints_as_known() -> bool:
    """Whether the XGrammar that is installed prints, and serialises, as is read here: looked at once."""
    import xgrammar

    if xgrammar.get_serialization_version() != SERIALIZATION_VERSION:
        return False
    try:
        refuse_other_meaning()
        return str(xgrammar.Grammar.from_ebnf(_PROBE)) == _PROBE
    except RuntimeError:
        return False
