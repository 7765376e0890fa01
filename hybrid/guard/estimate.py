"""Estimate how long XGrammar would take, from its input, before it is called.

What: pure functions from a text, or from a serialised grammar, to an `Estimate`: seconds, and whether the
recursion may be too deep for the stack.
When: by `hybrid.guard`, which makes calls that may be slow or deep in a process that can be killed.
Limits: fitted to XGrammar 0.2.8 on one core of 2026, and to inputs that were found to be slow; estimates are
rather too high than too low. Estimating an ordinary schema takes some microseconds. No clock is used, so all
ranks get the same estimates.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.ranges import ranges, starts_of
from equivalence.network import serial
from equivalence.network.grammar_reader import ParsedGrammar
from hybrid.guard.patterns import Size, pattern_size, size_bound
from hybrid.guard.recursion import beginnings

DEEP_BRACKETS = 1000
"""More nested brackets may be too deep for a recursion. With 8 MiB of stack, XGrammar 0.2.8 crashed at
100,000 nested groups of a pattern, and survived 10,000. Its parser of EBNF refuses 1,000 itself."""

FEW_BRACKETS = 16
"""If there are fewer brackets than this, their number is the bound of their depth."""

DEEP_REFERENCES = 2000
"""More references may form a chain that is too deep: XGrammar survived 5,000, but not 50,000."""

DEEP_GRAMMAR_BYTES = 2_000_000
"""The rules of a larger serialised grammar may be nested too deeply for XGrammar's compiler."""

WIDE_OPTION = 100
"""A longer indentation or separator, in characters, dominates the size of the grammar."""

MANY_CHARACTERS = 60
"""For a class of more characters than this, XGrammar tries much of the vocabulary in each of its states."""

SOME_CHARACTERS, OF_SOME = 16, 0.12
"""The same for a smaller part of the vocabulary (letters), and its share of that time."""

MOST_UNROLLED = 600
"""Most states to which XGrammar expands a repeat; larger ones are counted."""

MOST_RULES = 133
"""Most rules to which it expands a counted repeat; it compares all pairs of them."""

MOST_STEP = 1024
"""Largest step of ``multipleOf`` for which it makes an automaton, with that many states."""

RECURSIVE_SECONDS = 6e-6
"""Seconds for each pair of rules that lead to left recursion: 2,000 rules of 80 KB take 25 s."""

CHAIN_SECONDS = 1e-5
"""Seconds for each rule and each rule of the chain that it begins: 1,000 rules of 25 KB take up to 4 s, those
of objects with optional keys 0.1 to 0.3 s; twice as many take four times as long."""

AMBIGUOUS_SECONDS = 1e-8
"""Seconds for the fourth power of the bytes of the longest token, if recursion may be ambiguous. Measured for
``root ::= "a" root{0,5} "b"?``, which has one repeat: 0.13 s for 75 bytes, 2 s for 150, 32 s for 300. Four
rules with 19 calls of each other took 300 times as long."""

LONG_SEQUENCE, LOOKED_AT = 20, 40
"""Usual number of parts of a sequence; most expressions of a repeated rule that are examined."""

_OTHERS = bytes(code for code in range(256) if code not in b"()[]{}")
_DEEPER = np.zeros(256, np.int8)
_DEEPER[list(b"([{")] = 1
_DEEPER[list(b")]}")] = -1

MOST_PATTERN = 5_000
"""The structure of longer patterns, in characters, is not examined: they go to another process anyway."""

SMALL_SECONDS = 0.05
"""Most seconds of a schema's patterns for which upper bounds are used; beyond that, patterns are examined."""

WEIGHT_SECONDS = 1e-6
"""The seconds for compiling a pattern, for each pair of a state and an id that is tried there."""

_QUANTIFIERS = tuple(map(re.compile, (r"\*", r"\+", r"\?", r"\{(?=[\d,])", r"\\u00(?:2[aAbB]|3[fF])")))
"""Find quantifiers in a JSON text. Hardly any string has one, and examining all strings took 5% of the time
to a first mask. There is one expression for each quantifier, beginning with a fixed character, because
searching for a single combined expression is eight times as slow."""

_REST = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
"""Matches from a place inside of a string to its end."""

_REPEATS = re.compile(r'(?<!\\)"|(\)?)\{(?=\d|,\d)(\d{0,9}),?(\d{0,9})')

_ESCAPED = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u00(24|2[89]|2[cC]|3[0-9]|4[1-9a-fA-F]|5[0-9aAbBdD]|6[1-9a-fA-F]|7[0-9aAbBdD])"
)
"""Escapes of letters, digits, brackets and "$": a schema may spell in this way what is searched for here."""

_STEPS = re.compile(r'"multipleOf"\s*:\s*(\d{1,9})')


class Estimate(NamedTuple):
    """The resources that a call of XGrammar may need.

    Attributes:
        seconds: time on one core, rather too much than too little.
        is_deep: whether it may need more stack than there is, which would crash the process.
    """

    seconds: float
    is_deep: bool


def _without_escapes(text: str) -> str:
    """Return a JSON text with those characters written out that `_ESCAPED` finds."""
    if "\\u00" not in text:
        return text
    return _ESCAPED.sub(lambda found: found[1] + chr(int(found[2], 16)), text)


def schema_estimate(schema: str, options: Mapping[str, Any]) -> Estimate:
    """Estimate the conversion of a JSON schema, or of a structural tag that contains some, with the
    converter's options."""
    size = len(schema)
    schema = _without_escapes(schema)
    depth = bracket_depth(schema)
    # a part is written again for each part that contains it, and each level is compared with all levels below
    seconds = 2e-6 * size + 1e-8 * size * depth**2 + 2.5e-7 * depth**3
    if "pattern" in schema:
        seconds += _patterns_seconds(schema)
    if "minProperties" in schema or "maxProperties" in schema:
        seconds += 2e-5 * schema.count('":') ** 2
    if "multipleOf" in schema:
        seconds += 1e-8 * sum(min(int(found[1]), MOST_STEP) ** 2 for found in _STEPS.finditer(schema))
    if any(_is_wide(option) for option in options.values()):
        seconds += 10.0
    return Estimate(seconds, depth > DEEP_BRACKETS or schema.count("$ref") > DEEP_REFERENCES)


def tag_estimate(tag: str) -> Estimate:
    """Estimate the conversion of a structural tag, in JSON."""
    found = schema_estimate(tag, {})
    plain = _without_escapes(tag)
    # XGrammar 0.2.8 crashes on a token dispatch within a repeat, whatever its depth
    may_crash = "dispatch" in plain and "repeat" in plain
    return found._replace(is_deep=found.is_deep or may_crash)


def text_estimate(text: str) -> Estimate:
    """Estimate the parsing of a grammar in EBNF, or of a regular expression."""
    return Estimate(4e-6 * len(text), bracket_depth(text) > DEEP_BRACKETS)


def pattern_estimate(pattern: str) -> Estimate:
    """Estimate the construction of a pattern's automaton."""
    seconds = 2e-8 * len(pattern) ** 2
    if len(pattern) > MOST_PATTERN:
        seconds += 1e-7 * _squared_repeats(f'{pattern}"')
    else:
        seconds += _small_seconds(pattern) or _automaton_seconds(pattern_size(pattern))
    return Estimate(seconds, bracket_depth(pattern) > DEEP_BRACKETS)


def _small_seconds(pattern: str) -> float:
    """Return an upper bound of the seconds for a pattern's automaton if it is small; 0 if the pattern must be
    examined."""
    bound = size_bound(pattern)
    seconds = 0.0 if bound is None else _automaton_seconds(bound)
    return seconds if seconds < SMALL_SECONDS else 0.0


def _automaton_seconds(size: Size) -> float:
    """Estimate the construction of an automaton: 8 to 20 us for each state, 80 to 150 ns for each pair of
    positions that may be skipped."""
    return 2e-5 * size.states + 1.5e-7 * size.skipped


def _patterns_seconds(schema: str) -> float:
    """Estimate the patterns of a schema. All strings with quantifiers are taken for patterns."""
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
            # the converter tries to expand even what it then counts: 60 ns for each pair of times, 15 for
            # each pair of states
            seconds += _automaton_seconds(size) + 1e-7 * size.counted
    return seconds + bounded


def _quantified(schema: str) -> Iterator[str]:
    """Find the strings of a JSON text that contain a quantifier, as written between their quotes."""
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
        yield rest[0]  # harmless if it is between two strings, with the plus of a number


def _is_escaped(text: str, place: int) -> bool:
    """Whether an odd number of backslashes comes before a place."""
    before = place
    while before and text[before - 1] == "\\":
        before -= 1
    return (place - before) % 2 == 1


def bracket_depth(text: str) -> int:
    """Find the greatest depth of nested brackets of all kinds, including those in strings; if there are few,
    an upper bound."""
    opened = text.count("{") + text.count("[") + text.count("(")
    if opened < FEW_BRACKETS:  # counting takes less time than finding the depth
        return opened
    brackets = text.encode("utf-8", "surrogatepass").translate(None, _OTHERS)
    depths = np.cumsum(_DEEPER[np.frombuffer(brackets, np.uint8)], dtype=np.int64)
    return max(0, int(depths.max() - min(0, int(depths.min()))))


def _squared_repeats(text: str) -> float:
    """Compute the sum over all strings of the square of the number of states to which the repeats of each may
    expand."""
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


def grammar_estimate(grammar: ParsedGrammar, n_tokens: int) -> Estimate:
    """Estimate the compilation of a grammar for a vocabulary of `n_tokens` ids.

    In each state that reads many characters, XGrammar tries every token, and in other states few. For 600
    schemas with 357, 2,000 and 128,256 ids, the time was 0.4 to 4, 0.1 to 5 and 0.2 to 2 times the estimate
    (99 of 100 each). The terms for substrings and the last five are for constructs that take up to minutes
    and do not occur in those schemas.
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
    texts, sequences, choices, patterns, substrings = (
        lengths[types == one].astype(np.float64)
        for one in (serial.BYTES, serial.SEQUENCE, serial.CHOICES, serial.PATTERN, serial.SUBSTRING)
    )
    ranges = data[classes + 1].astype(np.float64)
    states, rules, wide_rules = _written_out(grammar, shares)
    recursive, chains = beginnings(grammar)
    seconds = (
        5e-6 * float(texts.sum())
        + 5e-7 * n_tokens * len(wide)
        + 1.2e-7 * n_tokens * states
        + 1.6e-8 * float(rules) ** 2
        + 1e-7 * float(wide_rules) ** 2
        + 5e-9 * n_tokens * float(patterns.sum())
        + 2e-8 * float((patterns**2).sum())
        + (1e-5 + 5e-10 * n_tokens) * float(substrings.sum())
        + 3e-11 * float((substrings**2).sum())
        + 1e-10 * float((texts**2).sum())
        + 5e-10 * float((ranges**2).sum())
        + 5e-6 * float((choices**2).sum())
        + 1e-8 * n_tokens * float((np.maximum(sequences - LONG_SEQUENCE, 0) ** 2).sum())
        + 1e-4 * n_tokens * (recursive > 0)
        + RECURSIVE_SECONDS * recursive**2
        + CHAIN_SECONDS * chains
        + _written_patterns(grammar, n_tokens)
    )
    # about 4 bytes of text for each number
    return Estimate(seconds, 4 * len(data) > DEEP_GRAMMAR_BYTES)


def ambiguity_seconds(longest: int, calls: int = 2) -> float:
    """Estimate how much longer it takes for a grammar that may be ambiguous, if the longest token has so many
    bytes. `calls` are those of `hybrid.guard.recursion.ambiguous_calls`."""
    return AMBIGUOUS_SECONDS * float(longest) ** 4 * (calls / 2) ** 2


def _written_patterns(grammar: ParsedGrammar, n_tokens: int) -> float:
    """Estimate the seconds for the automata to which patterns expand."""
    data, seconds = grammar.data, 0.0
    for at in grammar.starts[data[grammar.starts] == serial.PATTERN].tolist():
        length = int(data[at + 1])
        if length > MOST_PATTERN:
            seconds += WEIGHT_SECONDS * n_tokens * length
            continue
        # [whether it is for a JSON string, character ...]
        codes = data[at + 3 : at + 2 + length].tolist()
        size = pattern_size("".join(chr(code) for code in codes if 0 <= code < 0x110000))
        seconds += WEIGHT_SECONDS * n_tokens * size.weight + _automaton_seconds(size)
    return seconds


def _characters(data: NDArray[np.int64], classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the characters in the ranges of each class, [type, length, excludes, first, last, first, last
    ...]."""
    begins, places = ranges(np.zeros_like(classes), np.maximum(data[classes + 1] - 1, 0) // 2)
    first = np.repeat(classes + 3, np.diff(begins)) + 2 * places
    sums = starts_of(data[first + 1] - data[first] + 1)
    return sums[begins[1:]] - sums[begins[:-1]]


def _written_out(grammar: ParsedGrammar, shares: dict[int, float]) -> tuple[float, int, int]:
    """Estimate what repeats expand to.

    Args:
        grammar: the grammar.
        shares: for each character class that reads more than a few tokens, its share of the vocabulary.

    Returns:
        The states that read such classes, weighted by their shares; the number of rules; the number of rules
        with a class of many characters.
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
