"""Texts of strings in JSON: spellings parse to the texts that they stand for, and rows read the right texts.

What: `spelled` and `write_listed` against `json`, `write_plainly` against the language that it writes, and
`write_others` against the automaton of all texts except some.
"""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.network.characters import CHARACTERS
from hybrid.json_schema.languages.automaton import LAST, Automaton, minimal, one_of, universal, without
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.languages.spelling import spelled
from hybrid.json_schema.rows import CALL, EMPTY, Rows
from hybrid.json_schema.texts import write_listed, write_others, write_plainly

pytestmark = pytest.mark.kernels

BOUND = 10_000

SOURCES = ["^[^/]{0,2}$", '^[aé\U0001f600\\u0001"\\\\/]*$', "", "^[\\ud7ff-\\uffff]$", "^[^a]$"]


def texts_of(automaton: Automaton, depth: int) -> list[str]:
    """Texts up to a length, along the first and last characters of edges."""
    found: list[str] = []
    todo = [(0, "")] if automaton.rows else []
    while todo and len(found) < 3000:
        state, text = todo.pop()
        if automaton.accepting[state]:
            found.append(text)
        if len(text) < depth:
            for low, high, target in automaton.rows[state][:5]:
                ends = {low, high} - set(range(0xD800, 0xE000))
                todo += [(target, text + chr(one)) for one in ends]
    return found


SETS = [
    ((0, LAST),), ((0, 0x1F), (0x7F, LAST)), ((0, 0x2E), (0x30, LAST)), ((0xD7FF, 0xE000),), ((0xE9, 0xE9),),
    ((0xFFFF, 0x103FF),), ((0x1F5AB, 0x1F600),), ((0x61, 0x61), (0x3B1, 0x4B2)), ((0x22, 0x22), (0x5C, 0x5C)),
]  # fmt: skip


@pytest.mark.parametrize("ranges", SETS)
def test_spellings_parse_to_the_characters_of_the_set(ranges: tuple[tuple[int, int], ...]) -> None:
    texts, letters = spelled(ranges, True), one_of(ranges)
    for text in texts_of(texts, 13):
        assert all(letters.contains(letter) for letter in json.loads(f'"{text}"'))
    for text in (
        "",
        "aa",
        "é",
        "\x01",
        '"\\',
        "\U0001f600",
        "b",
        "/",
        "\n\t",
        "\uffff",
        "\u03b1a",
        "\U000103ff",
    ):
        for ascii_only in (True, False):
            spelling = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            assert texts.contains(spelling) == all(map(letters.contains, text))
            assert spelled(ranges).contains(spelling) == letters.contains(text)


WIDE = [0, 0x1F, 0x7F, 0xE9, 0x3B1, 0xD7FF, 0xE000, 0xFFFF, 0x1F600, 0x10FFFF]


@pytest.mark.parametrize("source", SOURCES)
def test_plain_spellings_leave_only_other_characters_out(source: str) -> None:
    language, rows = pattern(source, BOUND), Rows()
    sets: dict[int, tuple[tuple[int, int], ...]] = {}

    def rule_of(ranges: tuple[tuple[int, int], ...]) -> int:
        sets[len(sets)] = ranges
        return len(sets) - 1

    assert write_plainly(rows, language, rule_of) == 0
    edges = rows.table().tolist()
    read = {kind: [edge for edge in edges if edge[1] == kind] for kind in (CHARACTERS, EMPTY, CALL)}
    own: list[list[tuple[int, int, int]]] = [[] for _ in range(max(max(edge[::4]) for edge in edges) + 1)]
    for state, _, low, high, target in read[CHARACTERS]:
        own[state].append((low, high, target))
    accepting = [*language.accepting, *[False] * len(own)][: len(own)]
    plain = minimal([sorted(row) for row in own], accepting)
    for text in texts_of(plain, 4):
        assert language.contains(json.loads(f'"{text}"'))
    calls = {state: (sets[a], target) for state, _, a, _, target in read[CALL]}
    assert all(high < 0x20 or low > 0x7E for ranges in sets.values() for low, high in ranges)
    for state, code in product(range(language.n_states), WIDE):
        found = [target for entry, (ranges, target) in calls.items() for low, high in ranges
                 if low <= code <= high and [state, EMPTY, 0, 0, entry] in edges]  # fmt: skip
        assert found == [after for after in [language.step(state, code)] if after >= 0]


def reads(rows: Rows, sets: list[tuple[tuple[int, int], ...]], text: str, start: int, end: int) -> bool:
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


@given(odd_texts.filter(bool), odd_texts)
@settings(max_examples=100, deadline=None)
def test_other_texts_are_those_of_the_automaton(gone: list[str], asked: list[str]) -> None:
    rows, plain = Rows(), Rows()
    sets: list[tuple[tuple[int, int], ...]] = []

    def rule_of(ranges: tuple[tuple[int, int], ...]) -> int:
        sets.append(ranges)
        return len(sets) - 1

    end = rows.state()
    start = write_others(rows, sorted(gone), rule_of, end)
    language = without(universal(), gone)
    first = write_plainly(plain, language, rule_of)
    behind = plain.state()
    for state, accepts in enumerate(language.accepting):
        if accepts:
            plain.letter(first + state, '"', behind)
    for text in {*gone, *asked, *(text + "a" for text in gone), *(text[:-1] for text in gone)}:
        spelling = text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        assert reads(rows, sets, spelling, start, end) == (text not in gone)
        assert reads(plain, sets, spelling, first, behind) == (text not in gone)
    for raw in (text + '"' for text in asked):
        assert reads(rows, sets, raw, start, end) == reads(plain, sets, raw, first, behind)


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
