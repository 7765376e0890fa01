"""Grammars made safe for XGrammar's compiler.

What: refuses grammars that end the process, and keeps XGrammar's masks from contradicting its own
`accept_token`: drops lookahead assertions, gives a called root a caller, closes a vocabulary under prefixes.
Works on the form that `xgrammar.Grammar.serialize_json` gives, parsed by `json.loads`.
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


def shield_root(serialized: dict[str, Any]) -> bool:
    """Give a root rule that other rules (or it itself) call a caller of its own, in place.

    XGrammar's masks take the root's end for the end of the text, so where the root is called they drop
    tokens that its `accept_token` takes (``root ::= "a" "a" | root{2}`` after ``a``: the token ``aa``).
    Returns whether that was needed.
    """
    data, starts, root = (
        serialized["grammar_expr_data"],
        serialized["grammar_expr_indptr"],
        serialized["root_rule_id"],
    )
    called = False
    for at in starts:
        kind, length = data[at], data[at + 1]
        body = data[at + 2 : at + 2 + length]
        if kind in (4, 8):
            called = body[0] == root
        elif kind == 7:
            called = root in body[1:-2:2]
        elif kind == 11:
            called = root in body[2 : 2 + 2 * body[0] : 2]
        if called:
            break
    if not called:
        return False
    for row in ([4, 1, root], [5, 1, len(starts)], [6, 1, len(starts) + 1]):
        starts.append(len(data))
        data.extend(row)
    names = {rule[0] for rule in serialized["rules"]}
    name = "outer_root"
    while name in names:
        name += "_"
    serialized["root_rule_id"] = len(serialized["rules"])
    serialized["rules"].append([name, len(starts) - 1, -1, False, -1, -1, "", False, None])
    return True


def prefix_closed(tokens: list[bytes]) -> list[bytes]:
    """The proper prefixes that are missing among the tokens, sorted.

    XGrammar 0.2.8 decides a token by what it found for the one before it in byte order. Where a token goes
    on for several bytes after the part that it shares with that one, its mask can drop a token that its
    `accept_token` takes: over the tokens quote-newline and quote-quote-newline alone it drops the second
    where a JSON string may begin. There were 14 such bits in 66,000 masks over random vocabularies, and none
    once all prefixes were there. Real vocabularies are nearly closed under prefixes; representatives are not.
    """
    present = set(tokens)
    return sorted({token[:end] for token in tokens for end in range(1, len(token))} - present)


def refuse_endless_rules(serialized: dict[str, Any]) -> None:
    """Refuse a rule that is nothing but a repeat of itself, maybe by way of other rules (``p ::= p{2}``).

    XGrammar 0.2.8 ends the process with a segmentation fault when it compiles one, reachable or not; a
    plain cycle (``p ::= p``) does no harm.

    Raises:
        GrammarError: naming the rule.
    """
    data, starts = serialized["grammar_expr_data"], serialized["grammar_expr_indptr"]
    leads: list[int] = []  # to the rule that each is nothing but, -1: it is more
    repeats: list[bool] = []
    for rule in serialized["rules"]:
        at = starts[rule[1]]
        while data[at] in (5, 6) and data[at + 1] == 1:  # a sequence or choice of one
            at = starts[data[at + 2]]
        leads.append(data[at + 2] if data[at] in (4, 8) else -1)
        repeats.append(data[at] == 8)
    met = [-1] * len(leads)  # the rule that the way to each began with
    for start in range(len(leads)):
        number = start
        while leads[number] >= 0 and met[number] < 0:
            met[number] = start
            number = leads[number]
        if leads[number] < 0 or met[number] != start:
            continue
        # this way leads into a circle, which none before has met
        end, repeated = number, repeats[number]
        number = leads[number]
        while number != end:
            repeated = repeated or repeats[number]
            number = leads[number]
        if repeated:
            raise GrammarError(
                f"rule {serialized['rules'][end][0]!r} is nothing but a repeat of itself, which "
                "crashes XGrammar's compiler; give the rule another alternative, or remove it"
            )
