"""Make grammars safe for XGrammar's compiler.

What: it refuses grammars that crash the process, and keeps XGrammar's masks from contradicting its own
`accept_token`: it drops lookahead assertions, adds a caller for a root rule that is called, makes rules of
the character classes that follow a call, and adds missing prefixes to a vocabulary. The functions work on the
result of `xgrammar.Grammar.serialize_json`, parsed by `json.loads`.
Limits: docs/theory.md, section 8, explains why masks can be trusted then, for XGrammar 0.2.8. Grammars that
count, name ids or are lazy have more contradictions (docs/limits.md).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import xgrammar

from equivalence import GrammarError
from equivalence.network import dialect, serial
from equivalence.network.grammar_reader import ParsedGrammar
from equivalence.network.serial import BODY, IS_EXACT, LOOKAHEAD, NAME

LONG_TEXT = 2**20
"""Forced text of more bytes is not looked for in XGrammar, which takes 0.2 s for so many."""

_REQUIRED = re.compile(r"(\)?)\{(\d{1,9})")


def as_changed(grammar: xgrammar.Grammar, serialized: dict[str, Any], changed: bool) -> xgrammar.Grammar:
    """Return the grammar itself, or a new one made from its changed serialised form.

    Data that XGrammar's compiler may have added is removed, because it does not match the changed rules.
    """
    if not changed:
        return grammar
    return xgrammar.Grammar.deserialize_json(json.dumps({**serialized, **dialect.NOT_COMPILED}))


def without_lookahead(serialized: dict[str, Any]) -> bool:
    """Drop the lookahead assertions of all rules, in place. Return whether there were any.

    Assertions only affect masks; `accept_token` does not use them. XGrammar's converters contain some that
    were written by hand, and one in its builtin JSON grammar is wrong (its mask drops ``}]`` after
    ``[{"a":"x"``). Over representatives, one wrong bit would be wrong for a whole class.
    """
    found = False
    for rule in serialized[serial.RULES]:
        if rule[LOOKAHEAD] != -1:
            rule[LOOKAHEAD], rule[IS_EXACT] = -1, False
            found = True
    return found


def shield_root(serialized: dict[str, Any]) -> bool:
    """Add a new root rule that calls the old one, in place, if the old one is called by any rule. Return
    whether it was.

    XGrammar's masks take the end of the root for the end of the text. So if the root is called, they drop
    tokens that `accept_token` takes (``root ::= "a" "a" | root{2}`` after ``a``: the token ``aa``).
    """
    data, starts, root = serialized[serial.DATA], serialized[serial.STARTS], serialized[serial.ROOT]
    if not any(_calls(data, at, root) for at in starts):
        return False
    added = _Additions(serialized)
    serialized[serial.ROOT] = added.rule("outer_root", added.choices(added.expression(serial.RULE, root)))
    return True


def _calls(data: list[int], at: int, rule: int) -> bool:
    """Whether the expression at a place calls a rule directly."""
    expression_type = data[at]
    if expression_type in serial.CALLS:  # nearly all expressions that call rules; nothing is copied for these
        return data[at + 2] == rule
    if expression_type not in serial.TAG_TYPES:
        return False
    return rule in serial.called_rules(expression_type, data[at + 2 : at + 2 + data[at + 1]])


def classes_as_rules(serialized: dict[str, Any]) -> bool:
    """Make rules of the character classes that follow a call in their sequence, in place.

    When XGrammar compiles a rule that has only one call, it takes what follows that call for the rule's
    lookahead assertion; a repeat of more than 128 asserts what it repeats. Everything else runs as an
    automaton, but assertions are read element by element, and character classes are read wrongly there. For
    ASCII text, the bounds of their ranges are cut to a byte: a space counts as within U+0800 to U+4E2D. The
    first bytes of a character pass whatever may follow them: E0 passes every class of letters, C3 a class
    without U+00C0 to U+00FF. A called rule is an automaton again. So that it is not copied into its callers,
    it has a second alternative, which reads nothing.

    Returns:
        Whether there were any such classes.
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
            if alone >= 0:  # change the rule itself: it may have a temperature or a name for captures
                rules[data[at + 2]] = [*repeated]
                rules[data[at + 2]][BODY] = made.body(alone)
    return made.any


class _Additions:
    """Expressions and rules that are added to a serialised grammar. Methods return their numbers."""

    def __init__(self, serialized: dict[str, Any]) -> None:
        self._data, self._starts = serialized[serial.DATA], serialized[serial.STARTS]
        self._rules = serialized[serial.RULES]
        self._names: set[str] = set()

    def expression(self, expression_type: int, *body: int) -> int:
        self._starts.append(len(self._data))
        self._data.extend((expression_type, len(body), *body))
        return len(self._starts) - 1

    def choices(self, *ways: int) -> int:
        """Add the body of a rule with these alternatives."""
        return self.expression(serial.CHOICES, *[self.expression(serial.SEQUENCE, way) for way in ways])

    def rule(self, name: str, body: int) -> int:
        """Add a rule. If there is one of that name, it gets another name."""
        if not self._names:
            self._names = {rule[NAME] for rule in self._rules}
        while name in self._names:
            name = f"{name.rstrip('0123456789_')}_{len(self._rules)}_{len(self._names)}"
        self._names.add(name)
        self._rules.append(serial.plain_rule(name, body))
        return len(self._rules) - 1


class _ClassRules(_Additions):
    """The rules made from character classes, one for each distinct class."""

    def __init__(self, serialized: dict[str, Any]) -> None:
        super().__init__(serialized)
        self._never = -1
        self._references: dict[tuple[int, ...], int] = {}

    @property
    def any(self) -> bool:
        """Whether any rules were made."""
        return self._never >= 0

    def reference(self, expression: int) -> int:
        """Return a call of the rule that consists of this class."""
        data, at = self._data, self._starts[expression]
        key = tuple(data[at : at + 2 + data[at + 1]])
        if key not in self._references:
            rule = self.rule("class", self.body(expression))
            self._references[key] = self.expression(serial.RULE, rule)
        return self._references[key]

    def body(self, expression: int) -> int:
        """Make the body of a rule: this class, and a second alternative that reads nothing."""
        if self._never < 0:
            self._never = self.rule("never", self.choices(self.expression(serial.CLASS, 0)))
        return self.choices(expression, self.expression(serial.RULE, self._never))


def _only_class(data: list[int], starts: list[int], expression: int) -> int:
    """Return the character class that is the whole body of a rule; -1 if the body is anything else."""
    at = starts[expression]
    for whole in (serial.CHOICES, serial.SEQUENCE):
        if data[at] != whole or data[at + 1] != 1:
            return -1
        expression = data[at + 2]
        at = starts[expression]
    return expression if data[at] in serial.CLASSES else -1


def prefix_closed(tokens: list[bytes]) -> list[bytes]:
    """Find the proper prefixes of the tokens that are not tokens themselves, sorted.

    After a refused token, XGrammar 0.2.8 skips the tokens that begin with it. It takes for these the next
    tokens in byte order, as long as they *contain* the refused one anywhere. So its mask can drop a token
    that its `accept_token` takes: with only the tokens quote-newline and quote-quote-newline, it drops the
    second where a JSON string may begin. If all prefixes are tokens, it skips the right ones. The first token
    in byte order that does not begin with p is then a prefix of p with its next byte changed. It is not
    longer than p and not equal to p, so it does not contain p. Real vocabularies have nearly all prefixes;
    representatives do not.
    """
    present = set(tokens)
    return sorted({token[:end] for token in tokens for end in range(1, len(token))} - present)


def refuse_endless_rules(read: ParsedGrammar) -> None:
    """Refuse a rule that consists only of a repeat of itself, directly or through other rules (``p ::=
    p{2}``).

    XGrammar 0.2.8 crashes with a segmentation fault when it compiles such a rule, even if it cannot be
    reached. A plain cycle (``p ::= p``) does no harm.

    Raises:
        GrammarError: the message names the rule.
    """
    rule = read.endless_rule
    if rule >= 0:
        raise GrammarError(
            f"rule {read.rules[rule][NAME]!r} consists only of a repeat of itself, which crashes "
            "XGrammar's compiler; give the rule another alternative, or remove it"
        )


def may_force_endless_text(serialized: dict[str, Any]) -> bool:
    """Whether the root leads to a rule that has no finite text (``p ::= "a" p``), or only texts of more than
    `LONG_TEXT` bytes, or to a token id.

    XGrammar 0.2.8 follows forced text as long as there is any, ignores token ids, and does not return if the
    text is infinite (``"a"+ Token(1)``). If every rule has a finite text, then every beginning of a text can
    be completed, and forced text is a part of that completion; unless it needs ids. The shortest texts are
    found in the order of their lengths (Knuth 1977).
    """
    data, starts = serialized[serial.DATA], serialized[serial.STARTS]
    rules, n = serialized[serial.RULES], len(starts)
    waiting = [n + serialized[serial.ROOT]]  # numbers of expressions, and behind these, rules
    lacking: dict[int, int] = {}  # for each one that is reached, how many of its parts must still end
    lengths: defaultdict[int, int] = defaultdict(int)  # the sum of those of the parts that have ended
    users: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # with the times that each needs it
    ended: list[tuple[int, int]] = []
    while waiting:
        one = waiting.pop()
        if one in lacking:
            continue
        times = 1
        if one >= n:
            parts, lacking[one] = [rules[one - n][BODY]], 1
        else:
            at = starts[one]
            kind, body = data[at], data[at + 2 : at + 2 + data[at + 1]]
            if kind in serial.TOKEN_TYPES:
                return True
            parts = body if kind in serial.WHOLES else [n + rule for rule in serial.called_rules(kind, body)]
            if kind == serial.CHOICES or (kind == serial.CLASS and body == [0]):
                lacking[one] = 1  # of an empty class, there is none
            elif kind == serial.REPEAT:
                times, lacking[one] = body[1], int(body[1] > 0)
            else:
                lacking[one] = len(parts)
            if kind in serial.TAG_TYPES:
                times = 0  # at most one is open, and its own length counts
            elif not parts and kind != serial.STAR:
                lengths[one] = _most_of_pattern(body) if kind == serial.PATTERN else len(body)
        for part in parts:
            users[part].append((one, times))
        waiting += parts
        if lacking[one] == 0:
            heappush(ended, (lengths[one], one))
    while ended:
        length, one = heappop(ended)
        if length > LONG_TEXT:
            return True
        for user, times in users[one]:
            lacking[user] -= 1
            lengths[user] += times * length
            if lacking[user] == 0:
                heappush(ended, (lengths[user], user))
    return any(number > 0 for one, number in lacking.items() if one >= n)


def _most_of_pattern(body: Sequence[int]) -> int:
    """An upper bound of the length of a pattern's shortest texts: groups are repeated by the product of all
    that their repeats require, other parts by the sum."""
    pattern = "".join(chr(code) for code in body[1:] if 0 <= code < 0x110000)
    most, product = 4 * len(pattern), 1
    for group, least in _REQUIRED.findall(pattern):
        if group:
            product *= max(int(least), 1)
        else:
            most += 4 * int(least)
    return most * product
