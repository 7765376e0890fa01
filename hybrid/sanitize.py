"""Grammars made safe for XGrammar's compiler.

What: drops lookahead assertions, and refuses grammars that end the process. Works on the form that
`xgrammar.Grammar.serialize_json` gives, parsed by `json.loads`.
"""

from __future__ import annotations

from typing import Any

from equivalence import GrammarError


def without_lookahead(serialized: dict[str, Any]) -> bool:
    """Drop every rule's lookahead assertion, in place; returns whether there was one.

    An assertion sharpens masks only; `accept_token` does not look at it. XGrammar's converters write some
    by hand, and one in its builtin JSON grammar is wrong (its mask drops ``}]`` after ``[{"a":"x"``). Over
    representatives, one token's wrong bit would be its whole class's.
    """
    found = False
    for rule in serialized["rules"]:
        if rule[2] != -1:
            rule[2], rule[3] = -1, False
            found = True
    return found


def refuse_endless_rules(serialized: dict[str, Any]) -> None:
    """Refuse a rule that is nothing but a repeat of itself, maybe by way of other rules (``p ::= p{2}``).

    XGrammar 0.2.8 ends the process with a segmentation fault when it compiles one, reachable or not; a
    plain cycle (``p ::= p``) does no harm.

    Raises:
        GrammarError: naming the rule.
    """
    data, starts = serialized["grammar_expr_data"], serialized["grammar_expr_indptr"]
    alone: list[tuple[int, bool] | None] = []
    for rule in serialized["rules"]:
        at = starts[rule[1]]
        while data[at] in (5, 6) and data[at + 1] == 1:  # a sequence or choice of one
            at = starts[data[at + 2]]
        alone.append((data[at + 2], data[at] == 8) if data[at] in (4, 8) else None)
    for start, first in enumerate(alone):
        step, repeated = first, False
        for _ in alone:
            if step is None:
                break
            repeated = repeated or step[1]
            if step[0] == start:
                if repeated:
                    raise GrammarError(
                        f"rule {serialized['rules'][start][0]!r} is nothing but a repeat of itself, which "
                        "crashes XGrammar's compiler; give the rule another alternative, or remove it"
                    )
                break
            step = alone[step[0]]
