"""Random operations on random grammars: our matcher and plain XGrammar's behave alike.

What: tokens, texts, rollbacks, forks, resets and bad arguments in any order; everything observable is
compared after each.
When: after any change of the matcher.
Limits: small synthetic grammars and vocabularies.
"""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest
import xgrammar
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equivalence import BudgetExceeded, MatcherError, UnsupportedGrammar, Vocabulary
from hybrid import Budget, GrammarMatcher
from hybrid.xgrammar.sanitize import has_texts_without_end
from tests.classifiers import compiled_of
from tests.matchers import STRATEGIES, Sides, allowed, outcome
from tests.random_grammars import GrammarCase, grammar_cases
from tests.versions import READS_STOPS, whole_repeats

pytestmark = pytest.mark.kernels


class Traced(Sides):
    """Our matcher and plain XGrammar's under one sequence of operations; everything observable is
    compared."""

    def __init__(
        self, ours: GrammarMatcher, plain: Any, vocabulary: Vocabulary, unaided: bool, ends: bool
    ) -> None:
        super().__init__(ours, plain, vocabulary.size)
        self.ends = ends
        self.vocabulary = vocabulary
        self.strict = ours.compiled_grammar.strategy == "engine"
        self.unaided = unaided
        self.allowed: list[int] = []
        # XGrammar contradicts itself on these; other tests cover them
        self.overridden = set(vocabulary.stop_token_ids) - set(ours.stop_token_ids)

    def accept(self, token_id: int) -> Any:
        """Whether both accept a token; XGrammar accepts an overridden one without text as an empty step."""
        if token_id in self.overridden and not self.vocabulary.tokens[token_id]:
            assert not self.ours.accept_token(token_id)
            return None
        return self.same("accept_token", token_id)

    def apply(self, operation: tuple[str, int]) -> None:
        kind, number = operation
        size = self.vocabulary.size
        if kind == "accept":
            self.accept(number % (size + 2) - 1)
        elif kind == "allowed" and self.allowed:
            token_id = self.allowed[number % len(self.allowed)]
            taken = self.accept(token_id)
            # a grammar that ends unaided accepts no stop token, though both masks have its bit; the bit of an
            # overridden one is XGrammar's own error
            ends = self.unaided and token_id in self.ours.stop_token_ids
            if not ends and not (self.strict and token_id in self.overridden):
                assert taken in (True, None)
        elif kind == "stop" and self.ours.stop_token_ids:
            stops = self.ours.stop_token_ids
            self.same("accept_token", stops[number % len(stops)])
        elif kind == "text":
            tokens = self.vocabulary.tokens
            first, second = tokens[number % size], tokens[number // size % size]
            self.same("accept_string", (first + second)[: number % 4 + 1])
        elif kind == "rollback":
            self.same("rollback", number % 5)
        elif kind == "fork":
            left_behind = Traced(self.ours, self.plain, self.vocabulary, self.unaided, self.ends)
            forked = self if number % 2 else left_behind  # the fork goes on, or the original
            forked.ours, forked.plain = self.ours.fork(), self.plain.fork()
            self.apply(("allowed", number // 2))
            left_behind.compare()
        elif kind == "reset":
            self.same("reset")

    def compare(self) -> None:
        self.same("is_terminated")
        self.same("is_completed")
        if self.ends:  # XGrammar's search does not return where text is forced without end
            forced = outcome(self.ours.find_jump_forward_string, error=MatcherError)
            assert forced == outcome(whole_forced_text, self.plain)
        assert sorted(self.ours.stop_token_ids) == sorted(self.plain.stop_token_ids)
        size = self.vocabulary.size
        ours = outcome(allowed, self.ours, size, error=MatcherError)
        plain = outcome(allowed, self.plain, size)
        if ours is RuntimeError or plain is RuntimeError:
            assert ours is plain
            self.allowed = []
            return
        self.allowed = ours[1]
        # on every strategy a called root has its own caller, so ours may be right if plain is not
        for token_id in sorted(set(ours[1]) ^ set(plain[1])):
            if token_id in self.overridden and not self.vocabulary.tokens[token_id]:
                assert self.strict or token_id not in ours[1]
                continue
            taken = self.plain.fork().accept_token(token_id)
            if self.strict and token_id in self.overridden:
                continue  # the bit is XGrammar's own error
            assert taken == (token_id in ours[1]), f"the bit of {token_id} is wrong"
        if len(self.allowed) < size:
            assert ours[0], "the mask has a cleared bit and has to be applied"
        elif ours == plain:
            assert ours[0] == plain[0]


def whole_forced_text(plain: xgrammar.GrammarMatcher) -> str:
    """XGrammar's forced text; if its last character is not whole, without that: XGrammar raises an error."""
    try:
        return plain.find_jump_forward_string()
    except UnicodeDecodeError as error:
        return codecs.getincrementaldecoder("utf-8")().decode(error.object)


operations = st.lists(
    st.tuples(
        st.sampled_from(["allowed"] * 8 + ["accept", "text", "rollback"] * 2 + ["fork", "stop", "reset"]),
        st.integers(0, 1 << 20),
    ),
    min_size=20,  # hypothesis draws short lists if it may: with 1, most had two or three operations
    max_size=30,
)


@whole_repeats  # and its masks may have the bit of a stop token that it refuses
@settings(deadline=None, max_examples=60)
@example(GrammarCase('root ::= "a" "b"* \n', [b"a", b"b", b"ab"]), [("allowed", 0)] * 4, 0, 2, [1], True)
@given(
    case=grammar_cases(),
    steps=operations,
    padding=st.integers(0, 3),
    stops=st.integers(0, 3),
    override=st.none() | st.lists(st.integers(0, 1000), min_size=1, max_size=3),
    unaided=st.booleans(),
)
def test_random_operations(
    case: GrammarCase, steps: Any, padding: int, stops: int, override: Any, unaided: bool
) -> None:
    """Both strategies agree with XGrammar; stop tokens are text, absent or overridden, and there are empty
    tokens and padding."""
    tokens = [*case.vocabulary, b""]
    size = len(tokens) + padding
    stop_ids = [(), (len(tokens) - 1,), (0,), (0, len(tokens) - 1)][stops]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=stop_ids, vocab_size=size)
    options: dict[str, Any] = {"terminate_without_stop_token": unaided}
    if override is not None:
        options["override_stop_tokens"] = list(dict.fromkeys(value % size for value in override))
    ending = options.get("override_stop_tokens", stop_ids)
    if READS_STOPS and (unaided or any(vocabulary.tokens[stop] for stop in ending)):
        return  # such a stop token has its own test
    info = vocabulary.tokenizer_info
    grammar = xgrammar.Grammar.from_ebnf(case.ebnf)
    plain = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False).compile_grammar(grammar)
    ends = not has_texts_without_end(json.loads(grammar.serialize_json()))
    for strategy in STRATEGIES:
        try:
            compiled = compiled_of(case.ebnf, vocabulary, strategy=strategy, budget=Budget(5000))
        except BudgetExceeded:
            continue
        except UnsupportedGrammar as refusal:
            if "left recursive through a bounded repeat" not in str(refusal):
                raise
            continue
        ours, theirs = GrammarMatcher(compiled, **options), xgrammar.GrammarMatcher(plain, **options)
        traced = Traced(ours, theirs, vocabulary, unaided, ends)
        traced.compare()
        for step in steps:
            traced.apply(step)
            traced.compare()
