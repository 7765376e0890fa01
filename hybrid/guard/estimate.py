"""How long XGrammar would take, told from what it is given, before it is called.

What: pure functions from a text, or a serialised grammar, to an `Estimate`: seconds, and whether its
recursion may be too deep for a stack.
When: in `hybrid.guard`, which lets a call that may be slow or deep run in a process that can be
ended.
Limits: fitted to XGrammar 0.2.8 on one core of 2026 and to what was found to be slow; errs towards too much.
Ordinary schemas take some microseconds to estimate. No clock, so that all ranks estimate alike.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.network import serial
from equivalence.network.reading import ReadGrammar
from hybrid.guard.patterns import Bound, Size, pattern_size, size_bound

DEEP_BRACKETS = 1000
"""Nested brackets beyond which a recursion is taken for too deep: XGrammar 0.2.8 fell over at 100,000 groups
of a pattern with 8 MiB of stack, and survived 10,000; its parser of EBNF refuses 1,000 itself."""

DEEP_REFERENCES = 2000
"""References beyond which a chain of them may be too deep: 5,000 were survived, 50,000 were not."""

DEEP_GRAMMAR_BYTES = 2_000_000
"""Size of a serialised grammar beyond which its rules may be nested too deeply for XGrammar's compiler."""

WIDE_OPTION = 100
"""Characters of an indentation or separator beyond which the options are what makes a grammar large."""

NESTED_SECONDS = 0.03
"""What nesting may take by the number of brackets alone, before it is looked at how they are nested: to look
takes ten times as long as to count them."""

MANY_CHARACTERS = 60
"""Characters of a class beyond which XGrammar looks at much of the vocabulary in each of its states."""

SOME_CHARACTERS, OF_SOME = 16, 0.12
"""The same for a smaller part of the vocabulary (letters), and the share of the time that it takes."""

MOST_UNROLLED = 600
"""States that XGrammar writes a repeat out to at most; it counts beyond."""

MOST_RULES = 133
"""Rules that it writes a counted repeat out to at most; between them it looks for pairs that are alike."""

MOST_STEP = 1024
"""Largest step of ``multipleOf`` of which it makes an automaton, with as many states."""

LONG_SEQUENCE, LOOKED_AT = 20, 40
"""Parts of a sequence that are usual; expressions of a repeated rule that are looked at."""

_OTHERS = bytes(code for code in range(256) if code not in b"()[]{}")
_DEEPER = np.zeros(256, np.int8)
_DEEPER[list(b"([{")] = 1
_DEEPER[list(b")]}")] = -1

MOST_PATTERN = 5_000
"""Characters of a pattern, or of a schema's, beyond which their structure is not looked at: they are done in
another process anyway."""

SMALL_SECONDS = 0.05
"""What a bound of the patterns of a schema may say; beyond, they are looked at."""

WEIGHT_SECONDS = 1e-6
"""Of compiling a pattern, for each id and state that looks at it."""

_QUANTIFIERS = tuple(map(re.compile, (r"\*", r"\+", r"\?", r"\{(?=[\d,])", r"\\u00(?:2[aAbB]|3[fF])")))
"""Quantifiers in a JSON text. Hardly any string has one, and to look at all strings took 5% of the time to a
first mask. One expression for each, which begins with a character of its own: one for all is searched for
eight times as slowly."""

_REST = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
"""From inside of a string to its end."""

_REPEATS = re.compile(r'(?<!\\)"|(\)?)\{(?=\d|,\d)(\d{0,9}),?(\d{0,9})')

_ESCAPED = re.compile(r"\\u00(24|2[89]|2[cC]|3[0-9]|4[1-9a-fA-F]|5[0-9aAbBdD]|6[1-9a-fA-F]|7[0-9aAbBdD])")
"""Escapes of letters, digits, brackets and "$", in which somebody may spell what is looked for here."""

_STEPS = re.compile(r'"multipleOf"\s*:\s*(\d{1,9})')


class Estimate(NamedTuple):
    """What a call of XGrammar may take.

    Attributes:
        seconds: of one core, rather too many than too few.
        is_deep: whether it may need more stack than there is, which would end the process.
    """

    seconds: float
    is_deep: bool


def schema_estimate(schema: str, options: Mapping[str, Any]) -> Estimate:
    """Of converting a JSON schema, or a structural tag that holds some, with the converter's options."""
    size = len(schema)
    if "\\u00" in schema:
        schema = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), schema)
    # a part is written out again for each that it lies in, and each level is compared with all below
    depth = _opened(schema)
    nested = 1e-8 * size * depth**2 + 2.5e-7 * depth**3
    if nested > NESTED_SECONDS:
        depth = bracket_depth(schema)
        nested = 1e-8 * size * depth**2 + 2.5e-7 * depth**3
    seconds = 2e-6 * size + nested
    if "pattern" in schema:
        seconds += _patterns_seconds(schema)
    if "minProperties" in schema or "maxProperties" in schema:
        seconds += 2e-5 * schema.count('":') ** 2
    if "multipleOf" in schema:
        seconds += 1e-8 * sum(min(int(found[1]), MOST_STEP) ** 2 for found in _STEPS.finditer(schema))
    if any(_is_wide(option) for option in options.values()):
        seconds += 10.0
    return Estimate(seconds, depth > DEEP_BRACKETS or schema.count("$ref") > DEEP_REFERENCES)


def text_estimate(text: str) -> Estimate:
    """Of parsing a grammar in EBNF, or a regular expression."""
    return Estimate(4e-6 * len(text), bracket_depth(text) > DEEP_BRACKETS)


def pattern_estimate(pattern: str) -> Estimate:
    """Of making an automaton of a pattern."""
    seconds = 2e-8 * len(pattern) ** 2
    if len(pattern) > MOST_PATTERN:
        seconds += 1e-7 * _squared_repeats(f'{pattern}"')
    else:
        seconds += _small_seconds(pattern) or _automaton_seconds(pattern_size(pattern))
    return Estimate(seconds, bracket_depth(pattern) > DEEP_BRACKETS)


def _small_seconds(pattern: str) -> float:
    """A bound of what making an automaton takes, where it is small; 0: the pattern has to be looked at."""
    bound = size_bound(pattern)
    seconds = 0.0 if bound is None else _automaton_seconds(bound)
    return seconds if seconds < SMALL_SECONDS else 0.0


def _automaton_seconds(size: Size | Bound) -> float:
    """Of making an automaton: 8 to 20 us a state, 80 to 150 ns for each two positions that may be skipped."""
    return 2e-5 * size.states + 1.5e-7 * size.skipped


def _patterns_seconds(schema: str) -> float:
    """Of the patterns among the strings of a schema: of all that might be some."""
    if len(schema) > 10 * MOST_PATTERN:
        return 1e-7 * _squared_repeats(schema)
    seconds = bounded = 0.0
    for text in _quantified(schema):
        if "\\" in text:
            with contextlib.suppress(ValueError):  # XGrammar will refuse it
                text = json.loads(f'"{text}"', strict=False)
        if len(text) > MOST_PATTERN:
            seconds += 2e-8 * len(text) ** 2 + 1e-7 * _squared_repeats(f'{text}"')
        elif (small := _small_seconds(text)) and small + bounded < SMALL_SECONDS:
            bounded += small
        else:
            size = pattern_size(text)
            # the converter tries what is counted in the end: 60 ns for each two times, 15 for each two states
            seconds += _automaton_seconds(size) + 1e-7 * size.counted
    return seconds + bounded


def _quantified(schema: str) -> Iterator[str]:
    """The strings of a JSON text that hold a quantifier, as they are written between their quotes."""
    end = 0
    for place in sorted(found.start() for one in _QUANTIFIERS for found in one.finditer(schema)):
        if place < end:
            continue
        begin = schema.rfind('"', 0, place) + 1
        while begin > 1 and _is_escaped(schema, begin - 1):
            begin = schema.rfind('"', 0, begin - 1) + 1
        rest = _REST.match(schema, begin)
        assert rest is not None
        end = rest.end()
        yield rest[0]  # between two strings, where the plus is that of a number: no harm


def _is_escaped(text: str, place: int) -> bool:
    """Whether an odd number of backslashes comes before a place."""
    before = place
    while before and text[before - 1] == "\\":
        before -= 1
    return (place - before) % 2 == 1


def _opened(text: str) -> int:
    """Opening brackets of all kinds: no text is nested more deeply."""
    return text.count("{") + text.count("[") + text.count("(")


def bracket_depth(text: str) -> int:
    """How deeply brackets of all kinds are nested at most, those in strings included."""
    opened = _opened(text)
    if opened < 16:
        return opened
    brackets = text.encode("utf-8", "surrogatepass").translate(None, _OTHERS)
    depths = np.cumsum(_DEEPER[np.frombuffer(brackets, np.uint8)], dtype=np.int64)
    return max(0, int(depths.max() - min(0, int(depths.min()))))


def _squared_repeats(text: str) -> float:
    """The states that repeats in each string may be written out to, squared, together."""
    squares, total, product = 0.0, 1, 1
    for found in _REPEATS.finditer(text):
        group, low, high = found.groups()
        if low is None and high is None:  # another string
            squares += float(total * product) ** 2 if total * product > 1 else 0.0
            total = product = 1
        elif group:
            product = min(product * max(int(low or 0), int(high or 0), 1), 10**9)
        else:
            total = min(total + max(int(low or 0), int(high or 0)), 10**9)
    return squares


def _is_wide(option: Any) -> bool:
    if isinstance(option, int):
        return abs(option) > WIDE_OPTION
    if isinstance(option, str):
        return len(option) > WIDE_OPTION
    return isinstance(option, (list, tuple)) and any(_is_wide(one) for one in option)


def grammar_estimate(grammar: ReadGrammar, n_tokens: int) -> Estimate:
    """Of compiling a grammar over a vocabulary of so many ids.

    XGrammar looks at every token in each state that reads many characters, and at few in others. Over 600
    schemas with 357, 2,000 and 128,256 ids the time was 0.4 to 4, 0.1 to 5 and 0.2 to 2 times the estimate
    (99 of 100 each); what the last four terms stand for takes up to minutes, and is not among those schemas.
    """
    data, starts = grammar.data, grammar.starts
    types, lengths = data[starts], data[starts + 1]
    classes = starts[(types == serial.CLASS) | (types == serial.STAR)]
    last = len(data) - 1
    excludes = data[np.minimum(classes + 2, last)] == 1
    spans = _characters(data, classes)
    is_wide = excludes | (spans > MANY_CHARACTERS)
    wide = classes[is_wide]
    shares = dict.fromkeys(classes[spans > SOME_CHARACTERS].tolist(), OF_SOME)
    shares.update(dict.fromkeys(wide.tolist(), 1.0))
    texts, sequences, choices, patterns = (
        lengths[types == one].astype(np.float64)
        for one in (serial.BYTES, serial.SEQUENCE, serial.CHOICES, serial.PATTERN)
    )
    ranges = data[classes + 1].astype(np.float64)
    states, rules, wide_rules = _written_out(grammar, shares)
    seconds = (
        5e-6 * float(texts.sum())
        + 5e-7 * n_tokens * len(wide)
        + 1.2e-7 * n_tokens * states
        + 1.6e-8 * float(rules) ** 2
        + 1e-7 * float(wide_rules) ** 2
        + 5e-9 * n_tokens * float(patterns.sum())
        + 2e-8 * float((patterns**2).sum())
        + 1e-10 * float((texts**2).sum())
        + 5e-10 * float((ranges**2).sum())
        + 5e-6 * float((choices**2).sum())
        + 1e-8 * n_tokens * float((np.maximum(sequences - LONG_SEQUENCE, 0) ** 2).sum())
        + 1e-4 * n_tokens * _is_left_recursive(grammar)
        + _written_patterns(grammar, n_tokens)
    )
    # some 4 bytes of text for each number
    return Estimate(seconds, 4 * len(data) > DEEP_GRAMMAR_BYTES)


def _written_patterns(grammar: ReadGrammar, n_tokens: int) -> float:
    """Seconds of what patterns are written out to."""
    data, seconds = grammar.data, 0.0
    for at in grammar.starts[data[grammar.starts] == serial.PATTERN].tolist():
        length = int(data[at + 1])
        if length > MOST_PATTERN:
            seconds += WEIGHT_SECONDS * n_tokens * length
            continue
        # [whether it is of a JSON string, character ...]
        codes = data[at + 3 : at + 2 + length].tolist()
        size = pattern_size("".join(chr(code) for code in codes if 0 <= code < 0x110000))
        seconds += WEIGHT_SECONDS * n_tokens * size.weight + _automaton_seconds(size)
    return seconds


def _characters(data: NDArray[np.int64], classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Characters in the ranges of each class [type, length, excludes, first, last, first, last ...]."""
    if not len(classes):
        return np.zeros(0, np.int64)
    is_odd = np.arange(len(data)) & 1
    sums = np.zeros((2, len(data) + 1), np.int64)
    np.cumsum(np.where(is_odd, 0, data), out=sums[0, 1:])
    np.cumsum(np.where(is_odd, data, 0), out=sums[1, 1:])
    begins = classes + 3
    ends = np.maximum(classes + 2 + data[classes + 1], begins)
    firsts, lasts = begins & 1, (begins + 1) & 1
    return np.asarray(
        (sums[lasts, ends] - sums[lasts, begins])
        - (sums[firsts, ends] - sums[firsts, begins])
        + (ends - begins) // 2
    )


def _written_out(grammar: ReadGrammar, shares: dict[int, float]) -> tuple[float, int, int]:
    """What repeats are written out to.

    Args:
        shares: of the vocabulary, by the classes that read more than a few tokens.

    Returns:
        States that read such a share, summed; rules; rules with a class of many characters.
    """
    data, starts, rules = grammar.data, grammar.starts, grammar.rules
    states, all_rules, wide_rules = 0.0, 0, 0
    for at in starts[data[starts] == serial.REPEAT].tolist():
        times = int(max(data[at + 3], data[at + 4]))
        all_rules += min(times, MOST_RULES)
        waiting, looked, found = [int(starts[rules[data[at + 2]][serial.BODY]])], 0, 0.0
        while waiting and looked < LOOKED_AT:
            place = waiting.pop()
            looked += 1
            found += shares.get(place, 0.0)
            expression_type, length = data[place], data[place + 1]
            if expression_type in serial.WHOLES:
                waiting += starts[data[place + 2 : place + 2 + min(int(length), LOOKED_AT)]].tolist()
            elif expression_type == serial.RULE:
                waiting.append(int(starts[rules[data[place + 2]][serial.BODY]]))
        states += found * min(times, MOST_UNROLLED)
        wide_rules += min(times, MOST_RULES) if found >= 1.0 else 0
    return states, all_rules, wide_rules


def _is_left_recursive(grammar: ReadGrammar) -> bool:
    """Whether a rule begins with itself, maybe by way of others; what reads nothing is not looked through."""
    data, starts, rules = grammar.data, grammar.starts, grammar.rules
    begins: list[list[int]] = []
    callers: list[list[int]] = [[] for _ in rules]
    for number, rule in enumerate(rules):
        first, waiting = [], [int(starts[rule[serial.BODY]])]
        while waiting:
            place = waiting.pop()
            expression_type = data[place]
            if expression_type == serial.CHOICES:
                waiting += starts[data[place + 2 : place + 2 + data[place + 1]]].tolist()
            elif expression_type == serial.SEQUENCE and data[place + 1]:
                waiting.append(int(starts[data[place + 2]]))
            elif expression_type in serial.CALLS:
                first.append(int(data[place + 2]))
        begins.append(first)
        for called in first:
            callers[called].append(number)
    # a rule that begins with none that are left is none of a cycle: take it away, and go on
    left = [len(first) for first in begins]
    ready = [number for number, count in enumerate(left) if not count]
    taken = 0
    while ready:
        taken += 1
        for caller in callers[ready.pop()]:
            left[caller] -= 1
            if not left[caller]:
                ready.append(caller)
    return taken < len(rules)
