"""Token ids as steps of a classifier: masks and steps are those of XGrammar's `accept_token`.

What: grammars with edges that read ids, over a vocabulary in which ids are also text, equal texts, stop
tokens, or contain the byte that symbols begin with. At every step of random walks, each bit is compared with
the answer of plain XGrammar, which tries to accept the token.
Limits: small vocabularies. `tests.robustness.fuzz` draws random grammars; `tests.test_token_level` covers the
constructs that a classifier does not decide.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence import StrategyError, UnsupportedGrammar, Vocabulary
from equivalence.network.grammar_reader import read_grammar
from equivalence.network.token_ids import MOST_GROUPS, Symbols, escaped_edges, ids_as_bytes
from hybrid import BatchGrammarMatcher, Budget, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.classifier.follower import ClassifierFollower
from hybrid.classifier.named_ids import MOST_ESCAPED, NamedIds, text_ids
from hybrid.testing.mask_comparison import bits_of
from tests.matchers import Sides, ids_of, mask_of
from tests.test_token_level import EBNF, STOPS, TOKENS, parse, walk
from tests.versions import ids_as_wholes

pytestmark = ids_as_wholes

VOCABULARY = Vocabulary.from_bytes(
    [*TOKENS, b"\xff", b"\xffa", b"a\xff", b"\xff\xff", b"\xff\x01", b"ab\xff"], stop_token_ids=STOPS
)
TAG: dict[str, Any] = {
    "type": "tag", "begin": {"type": "token", "token": 5}, "end": {"type": "token", "token": 12},
    "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
}  # fmt: skip
TRIGGERED: dict[str, Any] = {"type": "token_triggered_tags", "trigger_tokens": [5], "tags": [TAG]}
OTHER_TAG = {**TAG, "begin": {"type": "token", "token": 2}, "content": {"type": "any_text"}}
FORMATS: dict[str, dict[str, Any]] = {
    "tag": TAG,
    "triggered": TRIGGERED,
    "triggered once": {**TRIGGERED, "stop_after_first": True, "exclude_tokens": [12]},
    "triggered, one at least": {**TRIGGERED, "at_least_one": True, "exclude_tokens": [3, 4, 56]},
    "one tag": {**TRIGGERED, "at_least_one": True, "stop_after_first": True},
    "two triggers": {**TRIGGERED, "trigger_tokens": [5, 2], "tags": [TAG, OTHER_TAG, TAG]},
    "any tokens": {"type": "any_tokens", "exclude_tokens": [5, 2]},
    "any tokens, then text": {"type": "tag", "begin": "<e", "content": {"type": "any_tokens"}, "end": "<e"},
    "any token, then a tag": {
        "type": "sequence", "elements": [{"type": "exclude_token", "exclude_tokens": [3]}, TAG]
    },
    "any text, then a tag": {"type": "sequence", "elements": [{"type": "any_text"}, TAG]},
    "texts around a token": {"type": "sequence", "elements": [
        {"type": "any_text", "excludes": ["x"]}, {"type": "token", "token": 5},
        {"type": "any_text", "excludes": ["ab"]}]},
    "dispatch": {"type": "token_dispatch", "loop": False, "exclude_tokens": [56], "rules": [
        [5, {"type": "regex", "pattern": "a+"}], [6, {"type": "any_tokens", "exclude_tokens": [3]}]]},
}  # fmt: skip


def tag_of(content: dict[str, Any]) -> str:
    return json.dumps({"type": "structural_tag", "format": content})


def of_format(content: dict[str, Any]) -> xgrammar.Grammar:
    return xgrammar.Grammar.from_structural_tag(tag_of(content))


def compiled_both(grammar: Any, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> tuple[Any, Any]:
    plain = GrammarCompiler(vocabulary, strategy="engine").compile_grammar(grammar)
    return GrammarCompiler(vocabulary, **options).compile_grammar(grammar), plain


CASES = [name for name in EBNF if ("token" in name or "excl" in name) and "budget" not in name]


@pytest.mark.parametrize("name", [*CASES, *FORMATS])
@pytest.mark.parametrize("compiler", [{}, {"deterministic": True}], ids=str)
def test_masks_follow_accept_token(name: str, compiler: dict[str, Any]) -> None:
    kind, source = ("ebnf", EBNF[name]) if name in EBNF else ("structural_tag", tag_of(FORMATS[name]))
    assert walk(kind, source, VOCABULARY, compiler=compiler).chosen["auto"] == "classifier"


@pytest.mark.parametrize("name", ["token without text, stop ids", "excluded, then text"])
@pytest.mark.parametrize("stops", [[2], [5, 7], [0, 55]])
def test_stop_tokens_of_a_request(name: str, stops: list[int]) -> None:
    """Stop tokens must not be read; tokens that no longer stop must be read, as ids and as text."""
    walk("ebnf", EBNF[name], VOCABULARY, options={"override_stop_tokens": stops})


def read_at_random(sides: Sides, rng: random.Random) -> None:
    """Read some tokens of the masks, which are the same on both sides."""
    for _ in range(12):
        assert sides.same("accept_token", rng.choice(sides.mask())) is True
        if sides.same("is_terminated"):
            break


def test_full_tables_are_begun_anew() -> None:
    """Ids that were read must be read again as ids after the tables are discarded."""
    ours, plain = compiled_both(of_format(TRIGGERED))
    classifier, rng = ours.classifier, random.Random(3)
    for _ in range(6):
        sides = Sides(GrammarMatcher(ours), GrammarMatcher(plain), VOCABULARY.size)
        for token_id in (3, 5, 8, 8):
            assert sides.same("accept_token", token_id) is True
            with classifier.lock:
                classifier.renew()
            sides.mask()
        assert sides.same("rollback", 2) is None
        read_at_random(sides, rng)


def test_an_id_read_both_ways_goes_on_elsewhere() -> None:
    ours, plain = compiled_both(parse("token that is also read as text"))
    first, second = GrammarMatcher(ours), GrammarMatcher(plain)
    assert first.accept_token(2) and second.accept_token(2)  # as an id, or as its bytes "ab"
    assert ours.strategy == "classifier" and "both as text and as an id" in ours.reason
    found, wanted = (mask_of(each) for each in (first, GrammarMatcher(ours)))
    assert found == mask_of(second)
    first.rollback()
    assert mask_of(first) == wanted


def test_classes_tell_named_ids_from_equal_texts() -> None:
    ours, _ = compiled_both(xgrammar.Grammar.from_ebnf('root ::= "a" Token(6) "b" | "ab" | "x" Token(2)'))
    of = ours.classes.class_of_token
    assert TOKENS[2] == TOKENS[6] and of[2] != of[6]
    assert of[0] == of[5] == of[46] == -1  # no text, or never read
    excluding, _ = compiled_both(xgrammar.Grammar.from_ebnf("root ::= ExcludeToken(3, 4)"))
    classes = excluding.classes
    assert classes.members(-1).tolist() == [0, 3, 4, 46, 55]
    assert classes.n_classes <= 2 + 6  # all others; a stop id that is text; what holds byte 255


def test_what_names_ids_is_not_written(tmp_path: Path) -> None:
    ours, _ = compiled_both(of_format(TRIGGERED), strategy="classifier")
    with pytest.raises(StrategyError, match="names token ids"):
        ours.save(tmp_path / "grammar")
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier", cache_dir=tmp_path)
    assert compiler.compile_grammar(of_format(TRIGGERED)).strategy == "classifier"
    compiler.compile_regex("a")
    assert compiler.stats()["disk"]["writes"] == 1
    walked = GrammarCompiler(VOCABULARY, cache_dir=tmp_path / "walked")
    waiting = walked.compile_grammar(of_format(TRIGGERED))
    walked.close()
    assert waiting.known_classes is None, "nothing is found to be written that is not"


def test_what_is_too_much_is_refused() -> None:
    texts = [b"a%d\xff" % number for number in range(MOST_ESCAPED + 1)]
    many = Vocabulary.from_bytes([*texts, b""], stop_token_ids=[65])
    compiled, _ = compiled_both(xgrammar.Grammar.from_ebnf("root ::= Token(3)"), many)
    assert "contain byte 255, but the limit is 64; use a grammar that names no ids" in compiled.reason
    groups = " | ".join(f"Token({i})" for i in range(MOST_GROUPS))
    grammar = read_grammar(xgrammar.Grammar.from_ebnf(f"root ::= {groups}"))
    with pytest.raises(
        UnsupportedGrammar, match=r"254 groups of token ids, but the limit is 253; .* name fewer ids"
    ):
        ids_as_bytes(grammar)


def test_a_small_budget_of_tables_goes_on_elsewhere() -> None:
    budget = {"budget": Budget(table_bytes=1)}
    walk("structural_tag", tag_of(FORMATS["two triggers"]), VOCABULARY, ["auto"], compiler=budget)


def test_a_classifier_of_which_states_are_left_is_completed() -> None:
    rng = random.Random(11)
    walked, plain = compiled_both(of_format(FORMATS["two triggers"]), on_demand=True)
    assert walked.promote()
    for _ in range(3):
        read_at_random(Sides(GrammarMatcher(walked), GrammarMatcher(plain), VOCABULARY.size), rng)


def test_byte_255_is_read_twice() -> None:
    edges = [[0, 1, 0, 255, 1], [1, 1, 255, 255, 0], [1, 1, 7, 254, 1], [1, 2, 255, 255, 0]]
    found, n_states = escaped_edges(np.array(edges, np.int64), 2)
    assert n_states == 4
    assert sorted(found.tolist()) == [
        [0, 1, 0, 254, 1], [0, 1, 255, 255, 2], [1, 1, 7, 254, 1], [1, 1, 255, 255, 3], [1, 2, 255, 255, 0],
        [2, 1, 255, 255, 1], [3, 1, 255, 255, 0],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["triggered", "two triggers", "any tokens, then text"])
def test_what_is_new_is_met_in_compiled_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code must handle all rows, drafts included, except for an id that is read both ways."""
    compiled, plain = compiled_both(of_format(FORMATS[name]))
    matcher, rng = GrammarMatcher(plain), random.Random(name)
    path, expected = [], [mask_of(matcher)]
    for _ in range(10):  # preferably ids that are read as ids, and no stop tokens
        ids = [5, 2, *rng.sample(expected[-1], len(expected[-1]))]
        following = [token for token in ids if token in expected[-1] and token not in STOPS]
        if not following or not matcher.accept_token(following[0]):
            break
        path.append(following[0])
        expected.append(mask_of(matcher))
    assert path
    monkeypatch.setattr(ClassifierFollower, "_ask", lambda *_: pytest.fail("asked in Python"))
    matcher = GrammarMatcher(compiled)
    for token, wanted in zip([*path, None], expected, strict=True):
        assert mask_of(matcher) == wanted
        assert token is None or matcher.accept_token(token)
    batch = allocate_token_bitmask(1 + len(path), VOCABULARY.size)
    again, _ = compiled_both(of_format(FORMATS[name]))
    taken = BatchGrammarMatcher().batch_fill_draft_bitmask([GrammarMatcher(again)], batch, [path])
    assert taken == [len(path)]
    assert [ids_of(row, VOCABULARY.size) for row in batch] == expected


def test_ids_of_one_vocabulary_are_read_once_and_follow_each_grammar() -> None:
    for named, read in (({5: 1, 4: 1, 12: 2}, (0, 2)), ({5: 1, 3: 2}, (1,)), ({}, (0,))):
        ids = NamedIds(Symbols(named, 3, read), VOCABULARY)
        assert ids.texts is text_ids(VOCABULARY)
        for token, text in enumerate(VOCABULARY.tokens):
            group = named.get(token, 0)
            assert ids.group(token) == (group if text and group in read else -1)
            assert bits_of(ids.others(), VOCABULARY.size)[token] == (text != b"" and not group)
