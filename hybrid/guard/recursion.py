"""How the rules of a grammar begin and end with each other.

What: `beginnings` finds left recursion, and long chains of rules that begin with each other;
`ambiguous_calls` finds recursion in which a text may have many parses.
When: by `hybrid.guard.estimate`, as XGrammar's compiler takes long for such grammars.
Limits: plain Python, some microseconds for each rule. Lookahead assertions and ranges of characters are not
considered, so `ambiguous_calls` is above 0 for many unambiguous grammars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from equivalence.arrays.closure import components_of, outside_cycles
from equivalence.network import serial
from equivalence.network.grammar_reader import ParsedGrammar

LONG_CHAIN, OF_ALONE = 50, 0.05
"""Usual length of a chain of rules that begin with each other; and how much a rule counts that is all of an
alternative, as in objects with optional keys."""

MANY_RULES, MOST_ROUNDS = 150, 20
"""In grammars of more rules, left recursion behind parts that may be empty is looked for; most rounds, and
most nested expressions, after which a rule counts as one that may be empty."""

FIRST, LAST = slice(None), slice(None, None, -1)
"""The order in which the parts of a sequence are looked at, for how it begins and ends."""


class Expressions(NamedTuple):
    """A grammar's expressions as lists, in which single numbers are found faster than in arrays.

    Attributes:
        data, starts: as in `ParsedGrammar`.
        bodies: for each rule, the place of its expression in `data`.
    """

    data: list[int]
    starts: list[int]
    bodies: list[int]

    def parts(self, place: int) -> list[int]:
        """The places of the parts of a sequence or a choice."""
        return [self.starts[part] for part in self.data[place + 2 : place + 2 + self.data[place + 1]]]


def _expressions(grammar: ParsedGrammar) -> Expressions:
    starts = grammar.starts.tolist()
    return Expressions(grammar.data.tolist(), starts, [starts[rule[serial.BODY]] for rule in grammar.rules])


def beginnings(grammar: ParsedGrammar) -> tuple[int, float]:
    """How rules begin with each other. In grammars of few rules, parts that may be empty are not skipped.

    Returns:
        The number of rules that lead to left recursion by their beginnings (0 if no rule begins with
        itself), and the sum of the lengths of the chains that other rules begin, beyond `LONG_CHAIN` each.
    """
    expressions, rules = _expressions(grammar), range(len(grammar.rules))
    may_be_empty = _may_be_empty(expressions) if len(rules) > MANY_RULES else None
    calls = [list(_calls_at(expressions, number, FIRST, may_be_empty)) for number in rules]
    taken = outside_cycles([[callee for callee, _ in called] for called in calls])
    lengths = [0.0] * len(rules)
    for number in taken:
        lengths[number] = max((lengths[callee] + weight for callee, weight in calls[number]), default=0.0)
    chains = sum(max(lengths[number] - LONG_CHAIN, 0.0) for number in taken)
    return len(rules) - len(taken), chains


def count_calls(grammar: ParsedGrammar) -> int:
    """How many calls there are at most, each repeat as one; quickly."""
    return int(np.isin(grammar.data[grammar.starts], serial.CALLS).sum())


def ambiguous_calls(grammar: ParsedGrammar) -> int:
    """How many calls are made where a rule that begins, or ends, with itself is called twice in a sequence of
    a rule in the same cycle; repeats count twice. 0: no such place. Otherwise the number of parses of a text
    may grow with a power of its length."""
    expressions = _expressions(grammar)
    numbers = range(len(expressions.bodies))
    may_be_empty = _may_be_empty(expressions)
    most = 0
    for end in (FIRST, LAST):
        after = [
            {callee for callee, _ in _calls_at(expressions, number, end, may_be_empty)} for number in numbers
        ]
        components = components_of(after, lambda: None)
        sizes = Counter(components)
        in_cycles = [number for number in numbers if sizes[components[number]] > 1 or number in after[number]]
        most = max(most, sum(_repeated_calls(expressions, number, components) for number in in_cycles))
    return most


def _repeated_calls(expressions: Expressions, number: int, components: list[int]) -> int:
    """Count the calls of a rule's component in those sequences of the rule that call it more than once."""
    data, waiting, seen = expressions.data, [expressions.bodies[number]], set()
    found = 0
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        parts = expressions.parts(place) if data[place] in serial.WHOLES else [place]
        if data[place] == serial.CHOICES:
            waiting += parts
            continue
        calls = 0
        for part in parts:
            if data[part] in serial.WHOLES:
                waiting.append(part)
            elif data[part] in serial.CALLS and components[data[part + 2]] == components[number]:
                calls += 2 if data[part] == serial.REPEAT else 1
        found += calls if calls > 1 else 0
    return found


def _calls_at(
    expressions: Expressions, number: int, end: slice, may_be_empty: list[bool] | None
) -> Iterator[tuple[int, float]]:
    """Find the rules with which a rule may begin (`FIRST`) or end (`LAST`), and how much each counts in a
    chain. Parts that may be empty are skipped if it is known which rules may be."""
    data, waiting = expressions.data, [(expressions.bodies[number], OF_ALONE)]
    seen = set()  # in serialised grammars, expressions may share their parts
    while waiting:
        place, weight = waiting.pop()
        expression_type = data[place]
        if expression_type in serial.WHOLES and data[place + 1]:
            if (place, weight) in seen:
                continue
            seen.add((place, weight))
            parts = expressions.parts(place)
            if expression_type == serial.SEQUENCE:
                weight = weight if len(parts) == 1 else 1.0
                parts = parts[end]
                n = 1
                while may_be_empty and n < len(parts) and _is_empty(expressions, parts[n - 1], may_be_empty):
                    n += 1
                parts = parts[:n]
            waiting += [(part, weight) for part in parts]
        elif expression_type in serial.CALLS:
            yield data[place + 2], weight


def _may_be_empty(expressions: Expressions) -> list[bool]:
    """For each rule, whether it may be empty; rather too often than too rarely."""
    found = [False] * len(expressions.bodies)
    for _ in range(MOST_ROUNDS):
        before = sum(found)
        for number, body in enumerate(expressions.bodies):
            found[number] = found[number] or _is_empty(expressions, body, found)
        if sum(found) == before:
            return found
    return [True] * len(found)


def _is_empty(expressions: Expressions, place: int, rules: list[bool], depth: int = 0) -> bool:
    """Whether an expression may be empty, if these rules may."""
    data = expressions.data
    expression_type, length = data[place], data[place + 1]
    if expression_type in serial.CALLS:
        is_optional = expression_type == serial.REPEAT and data[place + 3] == 0
        return is_optional or rules[data[place + 2]]
    if expression_type in serial.WHOLES and depth < MOST_ROUNDS:
        parts = expressions.parts(place)
        quantifier = all if expression_type == serial.SEQUENCE else any
        return quantifier(_is_empty(expressions, part, rules, depth + 1) for part in parts)
    return not (expression_type in (serial.BYTES, serial.CLASS) and length > 0)
