"""Regular languages of strings and numbers: against `re`, `json` and exact fractions.

What: automata are canonical; patterns match what Python's `re` matches, if both read the pattern alike;
numbers satisfy their bounds exactly; windows of lengths are exact; formats accept and refuse their edge
cases.
"""

from __future__ import annotations

import contextlib
import re
import time
from itertools import chain, pairwise, product
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.json_schema.languages import lengths
from hybrid.json_schema.languages.automaton import (
    Automaton,
    cells_of,
    complement,
    difference,
    empty,
    intersection,
    minimal,
    one_of,
    union,
    universal,
    without,
    words,
)
from hybrid.json_schema.languages.formats import FORMATS, LONGEST_MAIL, format_language
from hybrid.json_schema.languages.lengths import MOST_PRODUCT, every_length, with_length
from hybrid.json_schema.languages.limits import TooLarge, with_deadline
from hybrid.json_schema.languages.pattern import InvalidPattern, Unsupported, _Builder, pattern
from hybrid.json_schema.languages.syntax import parse
from hybrid.json_schema.languages.terms import ALL, Terms

pytestmark = pytest.mark.kernels

BOUND = 10_000
TEXTS = ["".join(letters) for n in range(5) for letters in product("ab1 ", repeat=n)]

PATTERNS = [
    "a", "^a$", "^(a|b)*1", "\\bab\\b",
    "\\Bb", "^((?!ab).)*$", "^(?=.*a)(?=.*1).{2,}$", "x|^b$", "(ab|1a)+?$",
    "^[^ab]+b", "^.{0,2}$", "a(?=b)", "^$|^a", "(?:^|1)a", "^(a{2}|b){1,2}$", "\\d\\s", "\\D$",
    "[a-b]\\w", "^(a|)b?$",
    "(?<n>a)b", "a{,2}", "^a*?b", "(a(?!b)|b)1", "^\\S+\\s\\S+$",
    "(^(?=.*[ab]))(^(?=.*1)).+$", "(?:(?=.{3})(?=.*1))^[a1]+$", "(?:(?=b)|1)\\bb", "[a-b]*(?!^)1", "(^)?a",
    "^a(?:b|1[\\ud800-\\udbff][\\udc00-\\udfff])$", "^[a\\ud800-\\udfff]$",
]  # fmt: skip


def test_bounds_of_repeats_have_any_number_of_digits() -> None:
    assert parse(f"a{{{'0' * 5000}2,03}}") == parse("a{2,3}")
    for bounds in ("1" * 13, "1" * 5000, f"1,{'1' * 13}"):
        with pytest.raises(Unsupported, match="a repeat of more than"):
            parse(f"a{{{bounds}}}")
    assert parse("a{") == parse("a\\{") and parse("a{1,2") == parse("a\\{1,2")


@pytest.mark.parametrize("part", ["a{", "a{1", "a", "a+", "(a)"])
@pytest.mark.parametrize("shape", ["{}", "[{}]"])
def test_parsing_a_pattern_looks_at_the_deadline(part: str, shape: str) -> None:
    with pytest.raises(BudgetExceeded):
        with_deadline(Deadline(0.02), lambda: parse(shape.format(part * 300_000)))


@pytest.mark.parametrize("source", PATTERNS)
def test_patterns_match_as_python_does(source: str) -> None:
    ours = pattern(source, BOUND)
    theirs = source.replace("(?<n>", "(?P<n>").replace("{,2}", "\\{,2\\}").replace("$", "\\Z")
    assert [text for text in TEXTS if ours.contains(text) != bool(re.search(theirs, text))] == []


counted = st.builds(
    "{}{}".format, st.sampled_from(["a", "b", "[ab]", "."]),
    st.sampled_from(["", "", "{2}", "{3}", "{1,2}", "{2,4}", "{3,5}", "{0,2}", "*", "+"]),
)  # fmt: skip
sequences = st.lists(st.one_of(counted, st.sampled_from(["(?:ab?){2}", "(?=.{3})", "(?!a{2}b)"])), max_size=4)


shapes = st.sampled_from(["{}", "^(?:{})$", "(?:{})$"])


@given(st.lists(sequences.map("".join), min_size=1, max_size=3), shapes)
@settings(max_examples=200, deadline=None)
def test_repeated_characters_match_as_in_python(branches: list[str], shape: str) -> None:
    ours, theirs = pattern(source := shape.format("|".join(branches)), BOUND), re.compile(source)
    texts = map("".join, chain.from_iterable(product("ab", repeat=n) for n in range(9)))
    assert [text for text in texts if ours.contains(text) != bool(theirs.search(text))] == []


@pytest.mark.parametrize(("source", "most"), [
    ("EN[a-zA-Z0-9]{32}", 100), ("^.*EN[a-zA-Z0-9]{32}.*$", 100), ("(?:c1d3.{4,8}){6}", 2_000),
    ("EN[A-Z]{20}[A-Z0-9]{20}", 100), ("key-(?:x?[a-z]{30}|[a-z0-9]{40})", 500),
])  # fmt: skip
def test_only_the_first_place_of_a_repeat_is_remembered(source: str, most: int) -> None:
    pattern(source, most)


ECMA: dict[str, tuple[list[str], list[str]]] = {  # texts that are matched, and texts that are not
    "^.$": ([], ["a\r", "", "\n", "\u2028"]), "^\\d$": ([], ["\u0661"]), "^\\s$": (["\ufeff"], ["a"]),
    "^[^]$": (["\n"], [""]), "^\\u{1F600}$": (["\U0001f600"], ["u"]),
    "^\\ud83d\\ude00$": (["\U0001f600"], ["\ud83d"]), "^\\cJ$": (["\n"], ["J"]),
    "^\\x41\\0$": (["A\0"], ["A0"]), "^a$": ([], ["a\n"]), "^\\p{Lu}$": (["É"], ["a"]), "[]": ([], ["", "a"]),
    "^[\\b]$": (["\b"], ["b"]), "^\\u12$": (["u12"], ["\u0012"]), "^\\u{+$": (["u{", "u{{"], ["u"]),
    "^\\u{}\\u{g}\\u{12$": (["u{}u{g}u{12"], []), "^[\\u{+]$": (["u", "{", "+"], ["}"]),
    "^[\\d-x]$": (["-", "7", "x"], ["a"]),
    "^\\p{Currency_Symbol}\\p{gc=Dash_Punctuation}$": (["€-"], ["a-", "€_"]),
    "^\\p{Cased_Letter}$": (["a", "É", "\u01c5"], ["\u02b0", "\u6f22"]),
    "^\\p{ASCII}$": (["~"], ["é"]), "^\\P{Any}$": ([], ["a"]), "^a{,2}$": (["a{,2}"], ["a"]),
    "^(?<$a_1\u200d>a)(?<\u037a\\u{1D49C}>b|(?<n>1)|(?<n>2))(?<\\u006eo\\ud835\\udc9c>)$":
    (["ab", "a2"], ["a"]),
}  # fmt: skip


@pytest.mark.parametrize("source", ECMA)
def test_patterns_are_read_as_ecma_262_does(source: str) -> None:
    matching, other = ECMA[source]
    language = pattern(source, BOUND)
    assert [text for text in (*matching, *other) if language.contains(text)] == matching


REFUSED: list[tuple[type[Exception], str, list[str]]] = [
    (Unsupported, "", [
        "(a)\\1", "(?<=a)b", "(?i)a", "\\Aa", "a\\z", "a++", "[[:alpha:]]", "(?>a)", "(?:a|\\b)+",
        "\\k<n>", "(?P=n)",
        "a{1000001}", "\\p{Script=Greek}", "\\p{Lux}", "(?:b?(?!a))*", "\\01", "[\\012]", "\\c", "\\p{}",
        "\\p{=L}", "\\p{gc=Any}",
    ]),
    (Unsupported, "nested too deeply",
     ["a?" * 20_000, "(a|b?)" * 20_000, "(" * 5_000 + "a" + ")?" * 5_000]),
    (InvalidPattern, "", ["(", "a)", "*", "[b-a]", "a**", "[a", "a{3,1}", "\\u{110000}", "^*", "(?<n",
      "\\p{L", "{2}", "a|{1,}b", "({2,3})",
      "(?<>a)", "(?<1a>x)", "(?P<1a>x)", "(?<a b>x)", "(?<a\\u>x)", "(?<a\\x61>x)", "(?<\u200da>x)"]),
    (InvalidPattern, "the same name", [
        "(?<a>x)(?<a>y)", "(?<a>(?<\\u0061>x))", "((?<a>x)|(?<b>y))(?:z|(?<b>w))", "(?=(?<a>x)|y)(?<a>z)"]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "sources"), REFUSED)
def test_what_is_no_pattern_or_is_not_regular_is_refused(
    error: type[Exception], message: str, sources: list[str]
) -> None:
    for source in sources:
        with pytest.raises(error, match=message or r"\w"):
            pattern(source, 100_000)


@pytest.mark.parametrize("n_sets", [20, 31, 33, 63, 65, 200])
def test_a_pattern_may_have_any_number_of_sets_of_characters(n_sets: int) -> None:
    pairs = [chr(0x100 + 2 * i) + chr(0x4E00 + 2 * i) for i in range(n_sets // 2)]
    found = pattern(f"^(?:{'|'.join(pairs)})*$", BOUND)
    assert found.n_states == len(pairs) + 1
    for i, pair in enumerate(pairs):
        assert found.contains(pair) and found.contains(pairs[i - 1] + pair)
        assert not found.contains(pair[0] + pairs[i - 1][1])


@pytest.mark.parametrize("shape", ["^{}$", "^{}", "^(?:{})$", "^(?=ab){}$", "^{}\\b"])
def test_texts_in_patterns_may_be_long(shape: str) -> None:
    """Long texts compile: one nested call for each part of a pattern allowed only a thousand characters."""
    text = "ab" * 1_500
    language = pattern(shape.format(text), BOUND)
    assert language.contains(text) and not language.contains(text[:-1])
    assert language.n_states <= len(text) + 2


def test_a_long_text_may_stand_anywhere() -> None:
    text = "ab" * 450
    language = pattern(text, BOUND)
    assert language.contains(f"b{text}a") and not language.contains(f"{text[:-2]}a{text[:-2]}")


some_words = st.lists(st.text("ab1", max_size=4), max_size=6)


@given(some_words, some_words)
@settings(max_examples=150, deadline=None)
def test_boolean_combinations_are_those_of_sets(left: list[str], right: list[str]) -> None:
    one, other = words(left), words(right)
    assert intersection([one, other], BOUND) == words(set(left) & set(right))
    assert union([one, other], BOUND) == words(set(left) | set(right))
    assert difference(one, other, BOUND) == words(set(left) - set(right))
    assert complement(complement(one)) == one
    assert one.words(100) == sorted(set(left))
    n = len(set(left))
    assert one.count(n) == n and (n == 0 or one.count(n - 1) is None)
    rest = without(universal(), right)
    assert [text for text in TEXTS if rest.contains(text) == (text in right)] == []
    cells = cells_of((one, other), BOUND)
    for text in TEXTS:
        assert [tuple(signs) for signs, cell in cells if cell.contains(text)] == [
            (text in left, text in right)
        ]


def test_vectors_of_thousands_of_automata_are_bounded_by_their_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector of n automata takes 8 n bytes: 11,000 took 1.5 GB, and 4 s beyond the deadline."""
    parts = tuple(pattern(f"^{chr(0x4E00 + i)}", BOUND) for i in range(2049))
    assert len(cells_of(parts[:4], 7)) == 5
    assert len(cells_of(parts, 3 * 2051)) == 2050  # a vector of 2,049 counts as 2.001 states
    checks: list[None] = []
    monkeypatch.setattr("hybrid.json_schema.languages.limits.check_deadline", lambda: checks.append(None))
    with pytest.raises(TooLarge):  # in the first state, whose edges lead to 2,050 vectors
        cells_of(parts, 4000)
    assert len(checks) > 1


def test_a_language_less_some_texts_has_no_dead_ends() -> None:
    short = pattern("^[a-z]?[^~]?$", BOUND)
    for gone in (["a"], ["ab", "a"], ["~", "x"], [""], ["ab"]):
        rest = without(short, gone)
        assert all(rest.accepting[state] or row for state, row in enumerate(rest.rows))
        assert [text for text in TEXTS if rest.contains(text)] == [
            text for text in TEXTS if short.contains(text) and text not in gone
        ]
    alone = without(pattern("^[^~]?$", BOUND), ["a"])
    assert alone.step(0, ord("a")) < 0 <= alone.step(0, ord("b"))


@pytest.mark.parametrize("repeat", ["", "?", "*", "+", "{2}", "{1,2}"])
def test_assertions_in_and_after_groups_mean_what_they_do_in_python(repeat: str) -> None:
    """Each pattern with two branches and something that depends on what they read is right, or refused."""
    parts, behind = (
        ("", "a", "b?", "$", "a$", "^", "\\b", "(?=b)"),
        ("^", "$", "\\b", "(?!^)", "(?:^|b)", "(?!a)"),
    )
    n_read = 0
    for one, other, last in product(parts, parts, behind):
        with contextlib.suppress(Unsupported):
            ours = pattern(source := f"(?:{one}|{other}){repeat}{last}", BOUND)
            theirs = re.compile(source.replace("$", "\\Z"))
            n_read += 1
            assert [text for text in TEXTS if ours.contains(text) != bool(theirs.search(text))] == [], source
    assert n_read > 100


assertions = st.recursive(
    st.sampled_from(["a", "b", " ", ".", "^", "$", "\\b", "\\b", "\\B", "(?=a)", "(?! )"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{2,}"])),
    ),
    max_leaves=6,
).filter(lambda source: len(re.findall("\\)[?*+{]", source)) < 4)  # more may take Python hours


@given(assertions)
@settings(max_examples=200, deadline=None)
def test_assertions_anywhere_mean_what_they_do_in_python(source: str) -> None:
    with contextlib.suppress(Unsupported):
        ours = pattern(source, BOUND)
        # before Python 3.14, \B does not match in an empty text
        theirs = re.compile(source.replace("$", "\\Z").replace("\\B", "(?!\\b)"))
        texts = map("".join, chain.from_iterable(product("ab ", repeat=n) for n in range(6)))
        assert [text for text in texts if ours.contains(text) != bool(theirs.search(text))] == []


@pytest.mark.parametrize(("source", "matched", "others"), [
    ("^(?:(?:25[0-5]|2[0-4]\\d|1\\d{2}|[1-9]?\\d)\\b\\.?){4}$", ["1.23.255.0"], ["1.2.3", "1.2.3.256"]),
    ("^(?:\\b\\w+\\b[ ,]*){1,50}$", ["a, b c", "a " * 50], [" a", "", "a " * 51]),
    ("^(?:^a|b)+$", ["abb"], ["ba"]),
])  # fmt: skip
def test_groups_with_assertions_may_be_repeated(source: str, matched: list[str], others: list[str]) -> None:
    language = pattern(source, BOUND)
    assert [text for text in (*matched, *others) if language.contains(text)] == matched


def test_no_state_lives_by_surrogates_alone() -> None:
    assert complement(pattern("^[\\u0000-\\ud7ff\\ue000-\\u{10ffff}]*$", BOUND)).is_empty
    assert pattern("[\\ud912]", BOUND).is_empty
    for language in (pattern("^[^\\ud800-\\udbff]$", BOUND), pattern("^[b\\ud800]c$", BOUND)):
        for row in language.rows:
            assert not [edge for edge in row if edge[0] >= 0xD800 and edge[1] <= 0xDFFF]


@pytest.mark.parametrize("source", ["\\w*\\b", "a?\\b", "\\w?\\B", "(?:a|(?=b)b)\\b"])
def test_many_assertions_take_no_exponential_time(source: str) -> None:
    began = time.monotonic()
    with contextlib.suppress(Unsupported):
        pattern(source * 40, BOUND)
    nested = "(?=a?\\b" * 25 + ")" * 25
    assert pattern(nested, BOUND).contains("a")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("source", ["", "^[ab]+$", "^1[ab]*$", "^(ab|1)*$", "a", "^(?=.*1)[ab1]*$"])
@pytest.mark.parametrize(("least", "most"), [(0, 2), (2, 3), (3, None), (2, 60), (1, 5 * BOUND)])
def test_windows_of_lengths_are_exact(source: str, least: int, most: int | None) -> None:
    language = pattern(source, BOUND)
    try:
        automaton, tails = with_length(language, least, most, BOUND)
    except TooLarge:
        assert most == 5 * BOUND
        return
    for text in [*TEXTS, "a" * 59, "a" * 61, "1" + "a" * 60]:
        parts = [
            (tail.prefix.contains(text[:i]), tail.least <= len(text) - i, text[i:], tail)
            for tail in tails
            for i in range(len(text) + 1)
        ]
        found = automaton.contains(text) or any(
            begins and enough and (tail.most is None or len(rest) <= tail.most)
            and all(tail.characters.contains(one) for one in rest)
            for begins, enough, rest, tail in parts
        )  # fmt: skip
        expected = language.contains(text) and least <= len(text) and (most is None or len(text) <= most)
        assert found == expected, text


FORMAT_CASES: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2024-02-29", "2000-02-29"], ["2023-02-29", "1900-02-29", "2020-13-01", "0000-01-01"]),
    "date-time": (["1990-12-31T23:59:60Z", "2020-01-01t00:00:00.5+01:00"], ["2020-01-01T24:00:00Z"]),
    "time": (["12:00:00Z"], ["12:00:00", "12:60:00Z"]),
    "duration": (["P1Y2M3DT4H5M6S", "P1W", "PT1S"], ["P", "PT", "P1YT", "1D"]),
    "ipv4": (["0.0.0.0", "255.1.20.3"], ["256.1.1.1", "01.1.1.1", "1.1.1"]),
    "ipv6": (["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1:2::8", "1:2:3:4:5:6:7::"],
             ["1:2:3:4:5:6:7", "1::2::3", ":1", "1:2:3:4:5:6:7:8:9"]),
    "hostname": (["a.b-c.d", "x" * 63], ["-a", "a-", "x" * 64, "", "a..b"]),
    "email": (
        ["a@b.c", '"a b"@c', "a@[127.000.0.01]", "a@[ipv6:1:2:3:4:5:6::]", "a@[IPv6:1:2:3:4::127.0.0.1]"],
        ["a", "@b", "a@-b", "a@", "a@[256.0.0.1]", "a@[0000.0.0.1]", "a@[IPv6:1:2:3:4:5:6:7::]",
         "a@[IPv6:1::3:4:5:6:7:8]", "a@[IPv6:1:2:3:4:5::127.0.0.1]"],
    ),
    "idn-hostname": (["\u00fc.\u6f22"], ["a\u3002b", "a\uff0eb", "a\uff61b", "\u00b6"]),
    "idn-email": (["\u0080@\u00fc"], ["a@\u00fc\u3002b", "a@\uff61", "a@\u0080"]),
    "uri": (["http://a.b/c?d#e", "mailto:x@y", "urn:a:b", "http://[::1]:80/"], ["//a", "/x", "a b:c", ""]),
    "uri-reference": (["/x", "a", "", "#f", "?q", "//h/p"], ["\\a", " "]),
    "iri": (
        ["http://\u00e9.a/\u6f22?\ue000#\U0001f600"],
        ["//\u00e9", "a:/\ue000", "a:\ufffe", "a:\ufdd0", "a:#\ue000"],
    ),
    "uri-template": (["http://a/{b}/{+c,d*}{?x:3}", "", "a'b"], ["{", "{a", "}", '"', "{'}"]),
    "uuid": (["2EB8AA08-AA98-11EA-B4AA-73B441D16380"], ["2eb8aa08-aa98-11ea-b4aa73b441d16380"]),
    "json-pointer": (["", "/a~0"], ["a", "/~"]),
    "relative-json-pointer": (["0", "1/a", "2#"], ["", "01", "/a"]),
}  # fmt: skip


def test_lengths_that_no_text_has_cost_nothing() -> None:
    """With 1,900,000 lengths it took a second, and with two million the schema was refused."""
    language = pattern("^a{2,40}$", BOUND)
    assert with_length(language, 3, 10**9, BOUND) == (pattern("^a{3,40}$", BOUND), ())
    assert with_length(language, 41, 10**9, BOUND) == (empty(), ())
    assert with_length(language, 10**9, None, BOUND) == (empty(), ())


def test_few_pairs_are_examined_for_tails_behind_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    words_counted, steps = pattern(r"^(?:\S+\s+){0,49}\S+$", BOUND), Mock()
    monkeypatch.setattr(lengths, "check_deadline", steps)
    with pytest.raises(TooLarge):
        with_length.__wrapped__(words_counted, 1, 700, 12_000)
    assert steps.call_count <= MOST_PRODUCT + 1


def test_a_state_for_each_length_has_bounds() -> None:
    language = pattern("^(?:\\S+\\s+){0,29}\\S+$", BOUND)
    assert MOST_PRODUCT < every_length(language, 0, 300, 50_000).n_states < 18_000
    for most, bound in ((300, 1000), (10**9, 50_000)):
        with pytest.raises(TooLarge):
            every_length(language, 0, most, bound)


@pytest.mark.parametrize("name", FORMAT_CASES)
def test_formats_know_their_edges(name: str) -> None:
    language, (right, wrong) = format_language(name), FORMAT_CASES[name]
    assert [text for text in (*right, *wrong) if language.contains(text)] == right


def test_every_format_has_a_language_and_others_are_annotations() -> None:
    assert all(not (format_language(name) or universal()).is_empty for name in FORMATS)
    assert format_language("regex") is None
    assert format_language("x-thing") is None


def test_a_mail_address_whose_own_bounds_are_within_the_length_is_not_counted() -> None:
    counted, bounded = format_language("email", True), format_language("email", True, 1024)
    assert counted.longest is None and bounded.longest == 316 <= LONGEST_MAIL
    assert bounded.shortest == 3  # a@b
    host = ".".join(["x" * 63] * 3)
    for text in ("a@b", "a.b+c@example.org", '"a b"@c', f"{'a' * 64}@{host}", "a@[127.0.0.1]"):
        assert bounded.contains(text) and counted.contains(text)
    for text in (f"{'a' * 65}@{host}", f'"{"a" * 63}"@b', f"a@{'b' * 64}"):
        assert not bounded.contains(text)
    language, tails = with_length(bounded, 1, 1024, 12_000)
    assert language is bounded and not tails
    longer, tails = with_length(bounded, 6, 1024, 12_000)
    assert not tails and longer.contains("a@b.cd") and not longer.contains("a@b.c")


@pytest.mark.parametrize("name", ["hostname", "idn-hostname"])
@pytest.mark.parametrize("most", [20, 63, 64, 128, 252])
def test_host_names_under_a_length_have_any_number_of_labels(name: str, most: int) -> None:
    whole, language = format_language(name), format_language(name, True, most)
    assert difference(whole, language, 20_000).is_empty
    assert every_length(language, 0, most, 72_000).n_states <= (3 * most if most <= 63 else 125 * most)
    assert language.contains("-".join("ab") + ".c" * (most // 2 - 2)) and not language.contains("a-.b")
    assert language.contains("a" * 64) == (most <= 63)
    assert language.contains("a" * 63) and not language.contains(".".join(["", "a"]))


@pytest.mark.parametrize("most", [None, 253])
def test_host_names_may_have_a_least_length(most: int | None) -> None:
    longer, tails = with_length(format_language("hostname", True, most), 4, most, 12_000)
    assert not tails and longer.contains("a.bc") and not longer.contains("a.b")


@pytest.mark.parametrize("name", ["uri", "uri-reference", "iri", "iri-reference"])
def test_uris_under_a_length_have_few_states(name: str) -> None:
    whole, language = format_language(name), format_language(name, True)
    assert language.n_states < 40 and difference(language, whole, 10_000).is_empty
    assert language.contains("https://example.org:80/a?b#c") and not language.contains("http://[::1]/")


def test_the_longest_and_the_shortest_text() -> None:
    assert (words(["ab", "abcd"]).shortest, words(["ab", "abcd"]).longest) == (2, 4)
    assert (empty().shortest, empty().longest) == (0, None)
    assert (universal().shortest, universal().longest) == (0, None)


@st.composite
def automata(draw: st.DrawFn) -> tuple[list[list[tuple[int, int, int]]], list[bool]]:
    """Some rows of edges over characters 0 to 3, and which states accept."""
    n = draw(st.integers(1, 5))
    rows = []
    for _ in range(n):
        cuts = [*sorted(draw(st.sets(st.integers(0, 3)))), 4]
        row = [
            (low, draw(st.integers(low, following - 1)), draw(st.integers(0, n - 1)))
            for low, following in pairwise(cuts)
        ]
        rows.append(draw(st.permutations(row)))
    return rows, draw(st.lists(st.booleans(), min_size=n, max_size=n))


@given(automata())
def test_a_minimal_automaton_has_no_equal_states_and_the_same_texts(
    one: tuple[list[list[tuple[int, int, int]]], list[bool]],
) -> None:
    rows, accepting = one
    found = minimal(rows, accepting)
    pairs = [(0, 0 if found.n_states else -1)]
    for left, right in pairs:  # it grows: equal texts lead both to equal states
        assert (left >= 0 and accepting[left]) == (right >= 0 and found.accepting[right])
        for code in range(4):
            edges = rows[left] if left >= 0 else []
            target = next((to for low, high, to in edges if low <= code <= high), -1)
            pair = target, found.step(right, code) if right >= 0 else -1
            pairs += [pair] * (pair not in pairs)
    assert {right for _, right in pairs} - {-1} == set(range(found.n_states))
    short = ["".join(map(chr, codes)) for n in range(5) for codes in product(range(4), repeat=n)]
    texts = {tuple(text for text in short if accepts(found, state, text)) for state in range(found.n_states)}
    assert len(texts) == found.n_states and () not in texts
    for row in found.rows:
        assert all(a[1] < b[0] and (a[1] + 1 < b[0] or a[2] != b[2]) for a, b in pairwise(row))


def accepts(automaton: Automaton, state: int, text: str) -> bool:
    """Whether a text leads from a state to one that accepts."""
    for letter in text:
        state = automaton.step(state, ord(letter)) if state >= 0 else -1
    return state >= 0 and automaton.accepting[state]


@given(st.sets(st.integers(0, 20), max_size=12))
def test_single_characters_are_what_minimising_makes(codes: set[int]) -> None:
    rows = [[(code, code, 1) for code in codes], []]
    assert one_of(tuple((code, code) for code in codes)) == minimal(rows, [False, True])


def test_reading_a_pattern_looks_at_the_deadline() -> None:
    """A pattern of 20,000 alternatives took two seconds more than the schema had."""
    tree, over = parse("ab|[cd]e"), Deadline()
    over.cancel()
    with pytest.raises(BudgetExceeded):
        with_deadline(over, lambda: _Builder(Terms()).term(tree, ALL, "start"))
