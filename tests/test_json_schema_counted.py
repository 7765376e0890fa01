"""Strings whose characters the parser counts along a pattern.

What: the texts of a counted language are those of the product of the language and the lengths; masks with
counted automata are those with a state for each length; such grammars have no token classes, and say so.
When: after any change of `hybrid.json_schema.languages.counted` or `equivalence.network.counted_automata`, or
of frames in `equivalence.parser`.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import BudgetExceeded, UnsupportedGrammar
from equivalence.arrays.ranges import LAST
from equivalence.network import build_network
from equivalence.network.grammar_reader import read_grammar
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, SchemaRefused, StrategyError
from hybrid.completion.completions import Completions
from hybrid.json_schema.grammar import grammar_of_schema
from hybrid.json_schema.languages.automaton import Automaton, intersection, minimal, words
from hybrid.json_schema.languages.counted import CountedLanguage, counted_language, n_texts
from hybrid.json_schema.languages.lengths import repeated_set
from hybrid.json_schema.languages.pattern import pattern
from tests.matchers import mask_of
from tests.test_artifact import VOCABULARY

pytestmark = pytest.mark.kernels

BOUND = 10_000
URI = {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083}
SLUG = {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 600}


def window(least: int, most: int | None) -> Automaton:
    """All texts whose length is in a range."""
    end = least if most is None else most
    rows = [((0, LAST, i + 1),) for i in range(end)] + [((0, LAST, end),) if most is None else ()]
    return minimal(rows, [i >= least for i in range(end + 1)])


def texts_of(language: CountedLanguage) -> Automaton:
    """The language as a state for each pair of a state and a number of characters: the slow reference."""
    automaton = language.automaton
    edges = [
        (*edge, language.sets[unit])
        for edge, unit in zip(automaton.edges.tolist(), language.units, strict=True)
    ]
    numbers, rows, accepting = {(0, 0): 0}, [], []
    for state, count in (pairs := [(0, 0)]):
        row = []
        for source, target, ranges in edges:
            if source == state and count + 1 + automaton.distance[target] <= automaton.most:
                if (target, count + 1) not in numbers:
                    numbers[target, count + 1] = len(pairs)
                    pairs.append((target, count + 1))
                row += [(low, high, numbers[target, count + 1]) for low, high in ranges]
        rows.append(sorted(row))
        accepting.append(bool(automaton.accepting[state]) and count >= automaton.least)
    return minimal(rows, accepting)


PARTS = st.sampled_from(["a", "[ab]", "b*", "(ab)*", "(a|bc)+", "c?", "[^a]", "(a{2}|b)*", "(b+c)?"])
SOURCES = st.lists(PARTS, min_size=1, max_size=4).map("".join)


@settings(max_examples=150, deadline=None)
@given(SOURCES, st.integers(0, 12), st.integers(6, 25))
def test_law_a_counted_language_is_the_product_with_its_lengths(source: str, least: int, most: int) -> None:
    language = pattern(f"^({source})$", BOUND)
    found = counted_language(language, least, most)
    if found is not None:
        assert texts_of(found) == intersection([language, window(least, most)], BOUND)


@pytest.mark.parametrize(
    ("source", "least", "most", "is_counted"),
    [
        ("^[a-z]+(-[a-z]+)*$", 0, 600, True),
        ("^[a-z]+(-[a-z]+)*$", 300, 600, True),
        ("^([ab]c)*$", 0, 600, True),
        ("^([ab]c)*$", 7, 600, True),  # not every length: the lower bound is put into the states
        ("^([ab]c)*$", 2000, 2100, False),  # which would be too many
        ("^(ab)*$", 0, 2400, False),  # few texts, which are listed
        ("^(ab)*$", 0, 10**9, True),  # many texts
        ("^(abcdefghij)*$", 0, 100_000, True),  # it is not known how many
        ("^[\ud7ff-\ue000](ab)*$", 0, 1500, False),  # few texts: surrogates are no characters
        ("^(1(a|bb){200}|(xyz)*)$", 500, 1200, False),  # the states that count up to the bound are too many
        ("^[a-z]{1,900}$", 5, 600, False),  # finite
        ("^[a-z]+$", 5, None, False),
        ("^a{40}[a-z]*$", 0, 41, False),  # hardly more than the shortest text
    ],
)
def test_what_is_counted(source: str, least: int, most: int | None, is_counted: bool) -> None:
    assert (counted_language(pattern(source, BOUND), least, most) is not None) == is_counted
    assert counted_language(words([]), 0, 5) is None


@pytest.mark.parametrize(
    ("source", "longest", "n"),
    [("^(ab)*$", 2_400, 1_201), ("^[xyz]?(ab)*$", 8_000, 16_001)],
    ids=["texts that are listed", "texts whose characters the parser counts"],
)
def test_few_texts_are_counted_where_items_must_be_unique(source: str, longest: int, n: int) -> None:
    items = {"type": "string", "pattern": source, "maxLength": longest}
    schema = {"type": "array", "uniqueItems": True, "items": items}
    compiled({**schema, "minItems": n})
    with pytest.raises(SchemaRefused, match="no valid instance"):
        compiled({**schema, "minItems": n + 1})


@pytest.mark.parametrize(
    ("source", "least", "most", "n"),
    [
        ("^[xyz]?(ab)*$", 3, 9_001, 4_499 + 3 * 4_500),
        ("^a*b*$", 0, 5_000, 5_001 * 5_002 // 2),
        ("^a{0,50}b{0,50}$", 0, 30_000, 51 * 51),  # finite: no length is beyond 100
        ("^(a|b)*$", 0, 5_000, 2**30 + 1),
        ("^(ab)*$", 0, 10_001, None),  # too many lengths
    ],
)
def test_texts_of_many_lengths_are_counted(source: str, least: int, most: int, n: int | None) -> None:
    assert n_texts(pattern(source, BOUND), least, most, 2**30) == n


def test_strings_that_cannot_be_counted_are_refused_where_items_must_be_unique() -> None:
    items = {"type": "string", "pattern": "^(a{150})?(b{150})?c*d*$", "maxLength": 10**6}
    with pytest.raises(SchemaRefused, match="cannot be counted"):
        grammar_of_schema({"type": "array", "uniqueItems": True, "items": items})


@settings(max_examples=60, deadline=None)
@given(SOURCES, st.integers(0, 6), st.integers(0, 9), st.integers(0, 300))
def test_law_texts_are_counted_up_to_a_limit(source: str, least: int, most: int, limit: int) -> None:
    language = pattern(f"^({source})$", BOUND)
    found = intersection([language, window(least, most)], BOUND).count(limit)
    assert n_texts(language, least, most, limit) == (limit + 1 if found is None else found)


@pytest.mark.parametrize("source", ["[a-z]", "[^ab]", "[0-9a-zA-Z_-]", "(?:a|1|\\n)", "."])
@pytest.mark.parametrize(("least", "most"), [(0, 33), (1, 255), (40, 40), (255, 300)])
def test_repeated_sets_are_recognised(source: str, least: int, most: int) -> None:
    language = pattern(f"^{source}{{{least},{most}}}$", BOUND)
    found = repeated_set(language)
    assert found is not None and found.prefix.is_empty_text and not found.is_counted
    assert found.characters == pattern(f"^{source}$", BOUND) and (found.least, found.most) == (least, most)
    assert intersection([pattern(f"^{source}*$", BOUND), window(least, most)], BOUND) == language


@pytest.mark.parametrize(
    "source",
    [
        "^a{0,32}$", "^a{1,60}b$", "^b?a{60}$", "^[ab]{40}[a]{20}$", "^a{60,}$", "^(aa){1,40}$",
        "^a{3}$|^a{40,50}$", "^(ab){30}$", "^[ab]{20}a[ab]{20}$", "", "a^",
    ],
)  # fmt: skip
def test_other_languages_are_no_repeated_sets(source: str) -> None:
    assert repeated_set(pattern(source, BOUND)) is None


# --- Masks -------------------------------------------------------------------------------------------------


def compiled(schema: Any, **options: Any) -> CompiledGrammar:
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema", cache_enabled=False, **options)
    return compiler.compile_json_schema(schema)


def has_counted(grammar: CompiledGrammar) -> bool:
    return len(grammar.classifier.fixed.parser.net) > 6


SCHEMAS: dict[str, Any] = {
    "a URL": URI,
    "a slug": SLUG,
    "at least some": {**SLUG, "minLength": 300},
    "a few more than the distance": {"type": "string", "pattern": "^(abcdefgh|x)+$", "maxLength": 300},
    "a letter anywhere": {"type": "string", "pattern": "[a-z]+", "minLength": 3, "maxLength": 255},
    "items": {"type": "array", "items": SLUG},
    "values beside each other": {
        "type": "object",
        "properties": {"a": URI, "b": {"anyOf": [SLUG, {"type": "integer"}]}, "c": URI},
    },
    "characters of several bytes": {"type": "string", "pattern": "^(é|[à-ü]x|\\n|\")*$", "maxLength": 700},
    "one of several lengths": {"anyOf": [SLUG, {**SLUG, "pattern": "^([A-Z]|a-)+$", "maxLength": 530}]},
}  # fmt: skip


REPEATED = ("^[0-9a-zA-Z_-]{1,255}$", "^[^a]{40,90}$", '^["\\\\é]{3,64}$')
"""Patterns that are a repeated set, which takes no counted automaton."""


@pytest.mark.parametrize("name", [*SCHEMAS, *REPEATED])
def test_masks_are_those_with_a_state_for_each_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along random texts; long ones reach the upper bound."""
    schema, rng = SCHEMAS.get(name, {"type": "string", "pattern": name}), random.Random(name)
    ours = compiled(schema)
    monkeypatch.setattr("hybrid.compile.schema_request._own_reading", lambda grammar: grammar.read)
    monkeypatch.setattr("hybrid.json_schema.strings.repeated_set", lambda language: None)
    theirs = compiled(schema)
    assert has_counted(ours) == (name in SCHEMAS) and not has_counted(theirs)
    assert 2 * ours.classifier.fixed.network.n_states < theirs.classifier.fixed.network.n_states
    assert (ours.classes is None) == (name in SCHEMAS)
    for is_long in (False, False, True):
        matchers = GrammarMatcher(ours), GrammarMatcher(theirs)
        for step in range(700 if is_long else 60):
            ids, others = map(mask_of, matchers)
            assert ids == others, step
            token = rng.choice(ids)
            if is_long:  # avoid the end, and prefer long tokens
                some = [one for one in rng.choices(ids, k=8) if VOCABULARY.tokens[one] not in (b"", b'"')]
                token = max(some or ids, key=lambda one: len(VOCABULARY.tokens[one]))
            assert all(matcher.accept_token(token) for matcher in matchers)
            if rng.random() < 0.05:
                for matcher in matchers:
                    matcher.rollback(1)
            if matchers[0].is_terminated():
                break
        assert matchers[0].is_terminated() == matchers[1].is_terminated()


# --- What such grammars do not have ------------------------------------------------------------------------


def test_there_are_no_classes(tmp_path: Path) -> None:
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema", cache_dir=tmp_path / "cache")
    with compiler:
        grammar = compiler.compile_json_schema(SLUG)
        assert grammar.strategy == "classifier" and has_counted(grammar)
        assert grammar.classes is None
        with pytest.raises(BudgetExceeded, match=r"counts the characters"):
            grammar.promote()
        with pytest.raises(StrategyError, match=r"counts the characters.*strategy='classifier'"):
            grammar.save(tmp_path / "one")
    assert list((tmp_path / "cache").glob("*.equimask")) == []
    compiled(SLUG, strategy="classifier").save(tmp_path / "one")
    network = build_network(grammar_of_schema(SLUG).counted, token_bytes=64)
    with pytest.raises(UnsupportedGrammar, match=r"counts the characters"):
        network.below()


@pytest.mark.parametrize("name", [name for name in SCHEMAS if "URL" not in name and "beside" not in name])
@pytest.mark.parametrize("is_long", [False, True])
def test_completions_cost_what_they_do_with_a_state_for_each_length(name: str, is_long: bool) -> None:
    """Also near both bounds; the plans begin with the same bytes."""
    grammar = compiled(SCHEMAS[name])
    stops = VOCABULARY.stop_token_ids
    ours = grammar.completions.of(stops)._configurations
    theirs = Completions(read_grammar(grammar.grammar), VOCABULARY).of(stops)._configurations
    assert ours._distances.counted is not None and theirs._distances.counted is None
    rng = random.Random(name)
    matcher, here, there, text = GrammarMatcher(grammar), ours.start, theirs.start, b""
    while not matcher.is_terminated():
        assert ours.cost(here) == theirs.cost(there) <= ours.most(here)
        assert ours.fewest(here) <= theirs.fewest(there)
        assert not ours.cost(here) or ours.first(here) == theirs.first(there)
        ids = [one for one in mask_of(matcher) if one not in stops]
        some = rng.choices(ids or [-1], k=8 if is_long else 1)
        if some[0] < 0 or len(text) > 800:
            break
        token = max(some, key=lambda one: (VOCABULARY.tokens[one] != b'"', len(VOCABULARY.tokens[one])))
        assert matcher.accept_token(token)
        piece = VOCABULARY.tokens[token]
        here, there, text = ours.read(here, piece), theirs.read(there, piece), text + piece


def test_texts_are_completed_within_a_number_of_tokens() -> None:
    matcher = GrammarMatcher(compiled(SLUG))
    assert matcher.accept_string(b'"ab-')
    texts = {VOCABULARY.tokens[token] for token in mask_of(matcher, 3)}
    assert b"a" in texts and b"-" not in texts and b'"' not in texts
