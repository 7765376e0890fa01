"""Grammars made safe for XGrammar's compiler.

What: refuses grammars that end the process, and keeps XGrammar's masks from contradicting its own
`accept_token`: drops lookahead assertions, gives a called root a caller, makes rules of the character classes
that follow a call, closes a vocabulary under prefixes. Works on the form that
`xgrammar.Grammar.serialize_json` gives, parsed by `json.loads`.
Limits: docs/theory.md, section 8, argues why masks can be trusted then, for XGrammar 0.2.8. Grammars that
count, name ids or are lazy have further contradictions (docs/limits.md).
"""

from __future__ import annotations

from typing import Any

from equivalence import GrammarError

_CLASSES, _CALLS, _SEQUENCE, _CHOICES, _REPEAT = (1, 2), (4, 8), 5, 6, 8
"""Types of expressions: a character class or its star; a call or a repeat of one; these three."""


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


def classes_as_rules(serialized: dict[str, Any]) -> bool:
    """Make rules of the character classes that follow a call in their sequence, in place.

    What follows a rule's only call becomes the rule's lookahead assertion when XGrammar compiles it, and a
    repeat over 128 asserts what it repeats. All else runs as an automaton, but assertions are read element by
    element, and a character class is read wrongly there. For ASCII text the bounds of its ranges are cut to a
    byte: space counts as within U+0800 to U+4E2D. The first bytes of a character pass whatever may follow
    them: E0 passes every class of letters, C3 a class without U+00C0 to U+00FF. A called rule is an
    automaton again; so that it is not copied into its callers, it has a second way, which reads nothing.

    Returns:
        Whether there was any.
    """
    data, starts = serialized["grammar_expr_data"], serialized["grammar_expr_indptr"]
    rules = serialized["rules"]
    made = _ClassRules(serialized)
    for at in starts[:]:
        kind, length = data[at], data[at + 1]
        if kind == _SEQUENCE:
            called = False
            for place in range(at + 2, at + 2 + length):
                kind = data[starts[data[place]]]
                if called and kind in _CLASSES:
                    data[place] = made.reference(data[place])
                called = called or kind in _CALLS
        elif kind == _REPEAT:
            repeated = rules[data[at + 2]]
            alone = _only_class(data, starts, repeated[1])
            if alone >= 0:  # the rule itself: it may have a temperature or a name to capture by
                rules[data[at + 2]] = [repeated[0], made.body(alone), *repeated[2:]]
    return made.any


class _ClassRules:
    """The rules made of character classes, one for each that is different."""

    def __init__(self, serialized: dict[str, Any]) -> None:
        self._data, self._starts = serialized["grammar_expr_data"], serialized["grammar_expr_indptr"]
        self._rules = serialized["rules"]
        self._names: set[str] = set()
        self._never = -1
        self._references: dict[tuple[int, ...], int] = {}

    @property
    def any(self) -> bool:
        """Whether anything was made."""
        return self._never >= 0

    def reference(self, expression: int) -> int:
        """The call of the rule that is this class and nothing else."""
        data, at = self._data, self._starts[expression]
        key = tuple(data[at : at + 2 + data[at + 1]])
        if key not in self._references:
            self._references[key] = self._add(4, self._rule("class", self.body(expression)))
        return self._references[key]

    def body(self, expression: int) -> int:
        """The body of a rule that is this class, and a second way that reads nothing."""
        if self._never < 0:
            self._never = self._rule("never", self._choices(self._add(1, 0)))
        return self._choices(expression, self._add(4, self._never))

    def _choices(self, *ways: int) -> int:
        return self._add(_CHOICES, *[self._add(_SEQUENCE, way) for way in ways])

    def _add(self, kind: int, *body: int) -> int:
        self._starts.append(len(self._data))
        self._data.extend((kind, len(body), *body))
        return len(self._starts) - 1

    def _rule(self, name: str, body: int) -> int:
        if not self._names:
            self._names = {rule[0] for rule in self._rules}
        while name in self._names:
            name = f"{name.rstrip('0123456789_')}_{len(self._rules)}_{len(self._names)}"
        self._names.add(name)
        self._rules.append([name, body, -1, False, -1, -1, "", False, None])
        return len(self._rules) - 1


def _only_class(data: list[int], starts: list[int], expression: int) -> int:
    """The character class that a rule's body is, -1 if it is more or less than one."""
    at = starts[expression]
    for kind in (_CHOICES, _SEQUENCE):
        if data[at] != kind or data[at + 1] != 1:
            return -1
        expression = data[at + 2]
        at = starts[expression]
    return expression if data[at] in _CLASSES else -1


def prefix_closed(tokens: list[bytes]) -> list[bytes]:
    """The proper prefixes that are missing among the tokens, sorted.

    XGrammar 0.2.8 skips the tokens that begin with a refused one, and takes for these the ones that follow it
    in byte order as long as they *contain* it, anywhere. So its mask can drop a token that its `accept_token`
    takes: over the tokens quote-newline and quote-quote-newline alone it drops the second where a JSON
    string may begin. Where all prefixes are there it skips what it should. The first token in byte order
    that no longer begins with p is a prefix of p with its next byte changed: it is not longer than p and is
    not p, so it does not contain p. Real vocabularies are nearly closed so; representatives are not.
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
