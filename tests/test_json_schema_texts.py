"""Texts of strings in JSON: spellings parse to the texts that they stand for, and rows read the right texts.

What: `spelled` and `write_listed` against `json`, `write_plainly` against the language that it writes, and
`write_others` against the automaton of all texts except some.
"""

from __future__ import annotations

import hashlib
import json
import os
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.arrays.ranges import LAST
from hybrid.json_schema.grammar import grammar_of_schema
from hybrid.json_schema.languages.automaton import Automaton, one_of, universal, without
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.languages.spelling import spelled
from hybrid.json_schema.rows import CALL, EMPTY, Rows
from hybrid.json_schema.texts import write_listed, write_others, write_plainly
from tests.new_process import printed_by

pytestmark = pytest.mark.kernels


Ranges = tuple[tuple[int, int], ...]


class Sets(list[Ranges]):
    """Sets of characters, each with the number of its rule."""

    def rule_of(self, ranges: Ranges) -> int:
        self.append(ranges)
        return len(self) - 1


SOURCES = ["^[^/]{0,2}$", '^[aé\U0001f600\\u0001"\\\\/]*$', "", "^[\\ud7ff-\\uffff]$", "^[^a]$"]


def texts_of(automaton: Automaton, depth: int) -> list[str]:
    """Texts up to a length, along the first and last characters of edges."""
    found: list[str] = []
    todo = [(0, "")] if automaton.rows else []
    while todo and len(found) < 1500:
        state, text = todo.pop()
        if automaton.accepting[state]:
            found.append(text)
        if len(text) < depth:
            for low, high, target in automaton.rows[state][:5]:
                todo += [(target, text + chr(one)) for one in {low, high} - set(range(0xD800, 0xE000))]
    return found


SETS = [
    ((0, LAST),), ((0, 0x1F), (0x7F, LAST)), ((0, 0x2E), (0x30, LAST)), ((0xD7FF, 0xE000),), ((0xE9, 0xE9),),
    ((0xFFFF, 0x103FF),), ((0x1F5AB, 0x1F600),), ((0x61, 0x61), (0x3B1, 0x4B2)), ((0x22, 0x22), (0x5C, 0x5C)),
]  # fmt: skip


TEXTS = ["", "aa", "é", "\x01", '"\\', "\U0001f600", "b", "/", "\n\t", "\uffff", "\u03b1a", "\U000103ff"]


@pytest.mark.parametrize("ranges", SETS)
def test_spellings_parse_to_the_characters_of_the_set(ranges: Ranges) -> None:
    texts, letters = spelled(ranges, True), one_of(ranges)
    for text in texts_of(texts, 13):
        assert all(letters.contains(letter) for letter in json.loads(f'"{text}"'))
    for text in TEXTS:
        for ascii_only in (True, False):
            spelling = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            assert texts.contains(spelling) == all(map(letters.contains, text))
            assert spelled(ranges).contains(spelling) == letters.contains(text)


def reads(rows: Rows, sets: list[Ranges], text: str, start: int, end: int) -> bool:
    """Whether some path through the rows reads a text; a call reads one character of its set."""
    edges = rows.table().tolist()
    reached = {start}
    for letter in [*text, None]:
        todo = list(reached)
        for state in todo:  # it grows
            todo += [to for at, kind, _, _, to in edges if at == state and kind == EMPTY and to not in todo]
        if letter is None:
            return end in todo
        reached = set()
        for source, kind, low, high, target in edges:
            ranges = sets[low] if kind == CALL else () if kind == EMPTY else ((low, high),)
            if source in todo and any(first <= ord(letter) <= last for first, last in ranges):
                reached.add(target)
    return False


odd_texts = st.lists(st.text('ab"\\/ ~\x7f\x1fé\U0001f600', max_size=3), max_size=5, unique=True)


class Plain:
    """Rows that read the plain spellings of a language, up to the closing quote."""

    def __init__(self, language: Automaton) -> None:
        self.rows, self.sets = Rows(), Sets()
        self.first = write_plainly(self.rows, language, self.sets.rule_of)
        self.behind = self.rows.state()
        for state, accepts in enumerate(language.accepting):
            if accepts:
                self.rows.letter(self.first + state, '"', self.behind)

    def reads(self, text: str) -> bool:
        return reads(self.rows, self.sets, text, self.first, self.behind)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') + '"'


WIDE = [*map(chr, (0, 0x1F, 0x7F, 0xE9, 0x3B1, 0xD7FF, 0xE000, 0xFFFF, 0x1F600, 0x10FFFF)), *'ab/"\\']


@pytest.mark.parametrize("source", SOURCES)
def test_plain_spellings_are_those_of_the_language(source: str) -> None:
    language = pattern(source, 10_000)
    plain = Plain(language)
    for letters in (letters for n in range(3) for letters in product(WIDE, repeat=n)):
        text = "".join(letters)
        assert plain.reads(escaped(text)) == language.contains(text), text
    assert all(high < 0x20 or low > 0x7E for ranges in plain.sets for low, high in ranges)


@given(odd_texts.filter(bool), odd_texts)
@settings(max_examples=100, deadline=None)
def test_other_texts_are_those_of_the_automaton(gone: list[str], asked: list[str]) -> None:
    rows, sets, plain = Rows(), Sets(), Plain(without(universal(), gone))
    end = rows.state()
    start = write_others(rows, sorted(gone), sets.rule_of, end)
    for text in {*gone, *asked, *(text + "a" for text in gone), *(text[:-1] for text in gone)}:
        assert reads(rows, sets, escaped(text), start, end) == (text not in gone)
        assert plain.reads(escaped(text)) == (text not in gone)
    for raw in (text + '"' for text in asked):
        assert reads(rows, sets, raw, start, end) == plain.reads(raw)


@given(odd_texts, odd_texts)
@settings(max_examples=100, deadline=None)
def test_listed_texts_are_read_in_the_spellings_of_json(listed: list[str], others: list[str]) -> None:
    rows = Rows()
    start, end = rows.state(), rows.state()
    write_listed(rows, sorted(listed), start, end)
    for text in {*listed, *others, *(text + "a" for text in listed), *(text[:-1] for text in listed)}:
        for ascii_only in (True, False):
            spelling = json.dumps(text, ensure_ascii=ascii_only)[1:]
            assert reads(rows, [], spelling, start, end) == (text in listed)
        assert not reads(rows, [], spelling[:-1], start, end)


def digest() -> str:
    """Return the digest of a schema's rules."""
    schema = {
        "type": ["object", "string"],
        "properties": {"é": {"enum": ["\U0001f600", "aé", "\x01"]}, "b": {"not": {"const": "ö"}}},
        "patternProperties": {"^[x-z]": {"type": ["null", "integer"]}},
        "maxLength": 30,
        "pattern": "^[a-zä]+( [a-zä]+)*$",
    }
    read = grammar_of_schema(schema).counted
    assert read.edges is not None
    parts = [read.edges.table().tobytes(), *(one.edges.tobytes() for one in read.automata)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_rules_are_the_same_in_every_process() -> None:
    """Hashes of strings, and so the order of sets, differ between processes."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # different from this process's
    program = "from tests.test_json_schema_texts import digest\nprint(digest())"
    assert printed_by(program, PYTHONHASHSEED=seed).strip() == digest()
