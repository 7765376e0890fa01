"""Sets of characters, and the kinds of characters that no pattern of a grammar distinguishes.

What: a set is a `Ranges`. For `categories` such as ``\\w``, and for sets that ignore case, `re` itself is
asked about every code point. `Kinds` partitions all characters by the sets of a grammar, so that automata
read a few dozen kinds instead of 1.1 million characters.
When: by `equivalence.lark.lexer.patterns`, and by everything after it, which only knows kinds.
Limits: surrogates have no kind, because they have no UTF-8 form. The answers of `re` are cached for the
process, and never stored, because they change with Python's Unicode tables.

Rejected: building a byte automaton for each pattern and joining these. The states in the middle of a
character multiply those of the lexer: in a grammar with Unicode digits, most states were of this kind.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.ranges import LAST, Ranges, joined, others

# `re`'s own parser and compiler, by their names in this version of Python
_modules = ("re._parser", "re._compiler") if sys.version_info >= (3, 11) else ("sre_parse", "sre_compile")
regex_parser: Any = importlib.import_module(_modules[0])
regex_compiler: Any = importlib.import_module(_modules[1])


def matched(node: Any, flags: int) -> Ranges:
    """The set of characters that one node of `regex_parser` matches, if it always matches one character.

    If case matters, literals and ranges are taken as written, and `re` is asked about categories. If not,
    `re` is asked about all characters that have case; for the others it makes no difference.
    """
    operation, argument = node
    plain = _matched_exactly(str(operation), argument, flags & ~re.IGNORECASE)
    if not flags & re.IGNORECASE:
        return plain
    cased, ranges = _characters_with_case()
    asked = _ask([(operation, argument)], flags, cased)
    without_case = others(joined((*others(plain), *ranges)))
    return joined((*without_case, *asked))


def _matched_exactly(operation: str, argument: Any, flags: int) -> Ranges:
    if operation == "LITERAL":
        return ((argument, argument),)
    if operation == "NOT_LITERAL":
        return others(((argument, argument),))
    if operation == "ANY":
        return ((0, LAST),) if flags & re.DOTALL else others(((10, 10),))
    assert operation == "IN", operation
    parts: list[tuple[int, int]] = []
    negated = False
    for kind, value in argument:
        if str(kind) == "NEGATE":
            negated = True
        elif str(kind) == "LITERAL":
            parts.append((value, value))
        elif str(kind) == "RANGE":
            parts.append(value)
        else:
            parts += category(value, flags & (re.ASCII | re.UNICODE))
    found = joined(parts)
    return others(found) if negated else found


@lru_cache(maxsize=64)
def category(code: Any, flags: int) -> Ranges:
    """A category such as CATEGORY_WORD, as `re` defines it under its flags ASCII or UNICODE."""
    return _ask([(regex_parser.IN, [(regex_parser.CATEGORY, code)])], flags, _all_characters())


@lru_cache(maxsize=1)
def _all_characters() -> str:
    # with surrogates, so that runs have no gaps
    return np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=1)
def _characters_with_case() -> tuple[str, Ranges]:
    """Characters that some change of case affects or produces: `re` may match them with others."""
    everything = _all_characters()
    found: set[str] = set()
    for begin in range(0, len(everything), 1024):
        block = everything[begin : begin + 1024]
        if block.lower() == block == block.upper() and block.casefold() == block:
            continue  # most blocks: they contain no character with case
        for character in block:
            forms = {character.lower(), character.upper(), character.casefold(), character.title()}
            if len(forms) > 1 or character not in forms:
                found.add(character)
                found.update(*forms)
    text = "".join(sorted(found))
    return text, joined((ord(character), ord(character)) for character in text)


def _ask(nodes: list[Any], flags: int, text: str) -> Ranges:
    """Those of a text's ascending characters that `re` matches; it finds runs faster than single
    characters."""
    state = regex_parser.State()
    state.flags = flags
    node = regex_parser.SubPattern(state, nodes)
    runs = regex_parser.SubPattern(state, [(regex_parser.MAX_REPEAT, (1, regex_parser.MAXREPEAT, node))])
    ranges: list[tuple[int, int]] = []
    for found in regex_compiler.compile(runs, flags).finditer(text):
        begin, end = found.span()
        first, last = ord(text[begin]), ord(text[end - 1])
        if last - first == end - 1 - begin:
            ranges.append((first, last))
        else:  # not all characters of the text are neighbours
            ranges.extend((ord(character), ord(character)) for character in found.group())
    return joined(ranges)


class Kinds(NamedTuple):
    """The coarsest partition of all characters such that each of some sets is a union of its parts.

    Attributes:
        firsts: int64[R], first code points of the ranges into which all characters are divided, ascending.
        kinds: int32[R], the kind of each range's characters; -1 for the surrogates.
        number: number of kinds.
        masks: for each given set, its kinds as bits of an integer.
    """

    firsts: NDArray[np.int64]
    kinds: NDArray[np.int32]
    number: int
    masks: tuple[int, ...]


def partition_characters(sets: Sequence[Ranges]) -> Kinds:
    """The kinds of characters that the sets distinguish, numbered in the order of their first characters."""
    edges = {0, 0xD800, 0xE000}
    for characters in sets:
        for first, last in characters:
            edges.update((first, last + 1))
    edges.discard(0x110000)
    firsts = np.array(sorted(edges), np.int64)
    member = np.zeros((len(firsts), len(sets) + 1), bool)
    for column, characters in enumerate((*sets, ((0xD800, 0xDFFF),))):
        bounds = np.array(characters, np.int64).reshape(-1, 2)
        before = np.searchsorted(bounds[:, 0], firsts, "right") - 1
        if len(bounds):
            member[:, column] = (before >= 0) & (firsts <= bounds[before, 1])
    numbers: dict[bytes, int] = {}
    kinds = np.empty(len(firsts), np.int32)
    masks = [0] * len(sets)
    for i, row in enumerate(np.packbits(member, axis=1)):
        if member[i, -1]:
            kinds[i] = -1
            continue
        key = row.tobytes()
        kind = numbers.get(key)
        if kind is None:
            kind = numbers[key] = len(numbers)
            for column in np.flatnonzero(member[i]).tolist():
                masks[column] |= 1 << kind
        kinds[i] = kind
    return Kinds(firsts, kinds, len(numbers), tuple(masks))
