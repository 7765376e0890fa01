"""Grammars made safe for XGrammar's compiler.

What: refuses grammars that end the process, and keeps XGrammar's masks from contradicting its own
`accept_token`: drops lookahead assertions, gives a called root a caller, makes rules of the character classes
that follow a call, closes a vocabulary under prefixes. Works on the form that
`xgrammar.Grammar.serialize_json` gives, parsed by `json.loads`.
Limits: docs/theory.md, section 8, argues why masks can be trusted then, for XGrammar 0.2.8. Grammars that
count, name ids or are lazy have further contradictions (docs/limits.md).
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import xgrammar

from equivalence import GrammarError
from equivalence.network import serial
from equivalence.network.reading import ReadGrammar
from equivalence.network.serial import BODY, IS_EXACT, LOOKAHEAD, NAME


def as_changed(grammar: xgrammar.Grammar, serialized: dict[str, Any], changed: bool) -> xgrammar.Grammar:
    """The grammar itself, or a new one made from its changed serialised form.

    Data that XGrammar's compiler may have added is removed, because it does not fit the changed rules.
    """
    if not changed:
        return grammar
    return xgrammar.Grammar.deserialize_json(json.dumps({**serialized, **serial.NOT_COMPILED}))


def without_lookahead(serialized: dict[str, Any]) -> bool:
    """Drop every rule's lookahead assertion, in place; returns whether there was one.

    An assertion sharpens masks only; `accept_token` does not look at it. XGrammar's converters write some
    by hand, and one in its builtin JSON grammar is wrong (its mask drops ``}]`` after ``[{"a":"x"``). Over
    representatives, one token's wrong bit would be its whole class's.
    """
    found = False
    for rule in serialized[serial.RULES]:
        if rule[LOOKAHEAD] != -1:
            rule[LOOKAHEAD], rule[IS_EXACT] = -1, False
            found = True
    return found


def shield_root(serialized: dict[str, Any]) -> bool:
    """Give a root rule that other rules (or it itself) call a caller of its own, in place.

    XGrammar's masks take the root's end for the end of the text, so where the root is called they drop
    tokens that its `accept_token` takes (``root ::= "a" "a" | root{2}`` after ``a``: the token ``aa``).
    Returns whether that was needed.
    """
    data, starts, root = serialized[serial.DATA], serialized[serial.STARTS], serialized[serial.ROOT]
    if not any(_calls(data, at, root) for at in starts):
        return False
    for row in (
        [serial.RULE, 1, root], [serial.SEQUENCE, 1, len(starts)], [serial.CHOICES, 1, len(starts) + 1],
    ):  # fmt: skip
        starts.append(len(data))
        data.extend(row)
    names = {rule[NAME] for rule in serialized[serial.RULES]}
    name = "outer_root"
    while name in names:
        name += "_"
    serialized[serial.ROOT] = len(serialized[serial.RULES])
    serialized[serial.RULES].append(serial.plain_rule(name, len(starts) - 1))
    return True


def _calls(data: list[int], at: int, rule: int) -> bool:
    """Whether the expression at a place calls a rule itself."""
    expression_type = data[at]
    if expression_type in serial.CALLS:  # nearly all that call any, so nothing is copied for them
        return data[at + 2] == rule
    if expression_type not in serial.TAG_TYPES:
        return False
    return rule in serial.called_rules(expression_type, data[at + 2 : at + 2 + data[at + 1]])


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
    data, starts = serialized[serial.DATA], serialized[serial.STARTS]
    rules = serialized[serial.RULES]
    made = _ClassRules(serialized)
    for at in starts[:]:
        expression_type, length = data[at], data[at + 1]
        if expression_type == serial.SEQUENCE:
            called = False
            for place in range(at + 2, at + 2 + length):
                part_type = data[starts[data[place]]]
                if called and part_type in serial.CLASSES:
                    data[place] = made.reference(data[place])
                called = called or part_type in serial.CALLS
        elif expression_type == serial.REPEAT:
            repeated = rules[data[at + 2]]
            alone = _only_class(data, starts, repeated[BODY])
            if alone >= 0:  # the rule itself: it may have a temperature or a name to capture by
                rules[data[at + 2]] = [*repeated]
                rules[data[at + 2]][BODY] = made.body(alone)
    return made.any


class _ClassRules:
    """The rules made of character classes, one for each that is different."""

    def __init__(self, serialized: dict[str, Any]) -> None:
        self._data, self._starts = serialized[serial.DATA], serialized[serial.STARTS]
        self._rules = serialized[serial.RULES]
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
            self._references[key] = self._add(serial.RULE, self._rule("class", self.body(expression)))
        return self._references[key]

    def body(self, expression: int) -> int:
        """The body of a rule that is this class, and a second way that reads nothing."""
        if self._never < 0:
            self._never = self._rule("never", self._choices(self._add(serial.CLASS, 0)))
        return self._choices(expression, self._add(serial.RULE, self._never))

    def _choices(self, *ways: int) -> int:
        return self._add(serial.CHOICES, *[self._add(serial.SEQUENCE, way) for way in ways])

    def _add(self, expression_type: int, *body: int) -> int:
        self._starts.append(len(self._data))
        self._data.extend((expression_type, len(body), *body))
        return len(self._starts) - 1

    def _rule(self, name: str, body: int) -> int:
        if not self._names:
            self._names = {rule[NAME] for rule in self._rules}
        while name in self._names:
            name = f"{name.rstrip('0123456789_')}_{len(self._rules)}_{len(self._names)}"
        self._names.add(name)
        self._rules.append(serial.plain_rule(name, body))
        return len(self._rules) - 1


def _only_class(data: list[int], starts: list[int], expression: int) -> int:
    """The character class that a rule's body is, -1 if it is more or less than one."""
    at = starts[expression]
    for whole in (serial.CHOICES, serial.SEQUENCE):
        if data[at] != whole or data[at + 1] != 1:
            return -1
        expression = data[at + 2]
        at = starts[expression]
    return expression if data[at] in serial.CLASSES else -1


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


def refuse_endless_rules(read: ReadGrammar) -> None:
    """Refuse a rule that is nothing but a repeat of itself, maybe by way of other rules (``p ::= p{2}``).

    XGrammar 0.2.8 ends the process with a segmentation fault when it compiles one, reachable or not; a
    plain cycle (``p ::= p``) does no harm.

    Raises:
        GrammarError: naming the rule.
    """
    rule = read.endless_rule
    if rule >= 0:
        raise GrammarError(
            f"rule {read.rules[rule][NAME]!r} is nothing but a repeat of itself, which crashes XGrammar's "
            "compiler; give the rule another alternative, or remove it"
        )


def has_texts_without_end(serialized: dict[str, Any]) -> bool:
    """Whether the root leads to a rule of which no text ends (``p ::= "a" p``).

    XGrammar 0.2.8 follows forced text as long as there is some, and does not return where it has no end.
    Where every rule has a text that ends, so has what is left of any text of the grammar, and forced text is
    the beginning of that.
    """
    data, starts = serialized[serial.DATA], serialized[serial.STARTS]
    bodies = [rule[BODY] for rule in serialized[serial.RULES]]
    root = serialized[serial.ROOT]
    reached, pending = {root}, [bodies[root]]
    seen: set[int] = set()
    lacking: dict[int, int] = {}  # of each expression how many others have to end first
    users: defaultdict[int, list[int]] = defaultdict(list)  # of expressions
    callers: defaultdict[int, list[int]] = defaultdict(list)  # of rules
    ended: list[int] = []
    while pending:
        expression = pending.pop()
        if expression in seen:
            continue
        seen.add(expression)
        at = starts[expression]
        kind, body = data[at], data[at + 2 : at + 2 + data[at + 1]]
        parts = body if kind in serial.WHOLES else ()
        callees = serial.called_rules(kind, body)
        for part in parts:
            users[part].append(expression)
        for callee in callees:
            callers[callee].append(expression)
            if callee not in reached:
                reached.add(callee)
                pending.append(bodies[callee])
        pending += parts
        lacking[expression] = 1 if kind == serial.CHOICES else len(parts) + len(callees)
        if kind == serial.CLASS and body == [0]:
            continue  # no character is in it
        if lacking[expression] == 0 or (kind == serial.REPEAT and body[1] == 0):
            lacking[expression] = 0
            ended.append(expression)
    rules_of = defaultdict(list)
    for rule in reached:
        rules_of[bodies[rule]].append(rule)
    ending: set[int] = set()
    while ended:
        expression = ended.pop()
        freed = list(users[expression])
        for rule in rules_of[expression]:
            ending.add(rule)
            freed += callers[rule]
        for other in freed:
            lacking[other] -= 1
            if lacking[other] == 0:
                ended.append(other)
    return not reached <= ending
