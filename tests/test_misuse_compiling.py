"""Compilers, vocabularies and logits processors with wrong arguments; copies and pickles of these objects.

What: tables of wrong arguments, each refused by an error of ours that names the argument.
When: after any change of code that reads arguments, or of the fields of these objects.
Limits: XGrammar's and Lark's errors for invalid grammars are in ``test_compiler.py``, ``test_lark.py``.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import xgrammar

from adapters.transformers import GrammarLogitsProcessor
from equivalence import (
    ArgumentError,
    ArtifactError,
    BatchError,
    GrammarError,
    HybridError,
    StrategyError,
    VocabularyError,
)
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests.misuse import SUBJECTS, VOCABULARY, compiled_by

TOKENS = [b"a", b"b"]

VOCABULARIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "no list": (5, {}),
    "None": (None, {}),
    "text": ("ab", {}),
    "one token": (b"ab", {}),
    "stop True": (TOKENS, {"stop_token_ids": True}),
    "stops in booleans": (TOKENS, {"stop_token_ids": np.array([True])}),
    "stop 1.0": (TOKENS, {"stop_token_ids": 1.0}),
    "stops in text": (TOKENS, {"stop_token_ids": "0"}),
    "stops in bytes": (TOKENS, {"stop_token_ids": b"\0"}),
    "stop None": (TOKENS, {"stop_token_ids": None}),
    "stop in a list": (TOKENS, {"stop_token_ids": [[0]]}),
    "stop 2": (TOKENS, {"stop_token_ids": torch.tensor(2)}),
    "one special": (TOKENS, {"special_token_ids": 1}),
    "specials None": (TOKENS, {"special_token_ids": None}),
    "size 1.5": (TOKENS, {"vocab_size": 1.5}),
    "size 10 ** 12": (TOKENS, {"vocab_size": 10**12}),
    "a folder of 5": (TOKENS, {"cache_dir": 5}),
    "no folder": (TOKENS, {"cache_dir": ""}),
    "a folder with a NUL": (TOKENS, {"cache_dir": "a\0b"}),
}


@pytest.mark.parametrize(("tokens", "options"), VOCABULARIES.values(), ids=VOCABULARIES)
def test_wrong_vocabularies(tokens: Any, options: dict[str, Any]) -> None:
    with pytest.raises(VocabularyError):
        Vocabulary.from_bytes(tokens, **options)


def test_integers_of_all_kinds_make_vocabularies() -> None:
    expected = Vocabulary.from_bytes(TOKENS, stop_token_ids=1, special_token_ids=[0], vocab_size=3)
    one: Any = np.uint8(1)
    for stop in (one, torch.tensor(1), np.array([1]), torch.tensor([1]), {1}, (1, 1), np.array(1)):
        found = Vocabulary.from_bytes(
            TOKENS, stop_token_ids=stop, special_token_ids=np.zeros(1, int), vocab_size=one + 2
        )
        assert found.fingerprint == expected.fingerprint
        assert [type(one) for one in (*found.stop_token_ids, *found.special_token_ids, found.size)] == [
            int
        ] * 4


def test_other_wrong_arguments_of_vocabularies() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: VOCABULARY.save(5),  # type: ignore[arg-type]
        lambda: VOCABULARY.prepare(5),  # type: ignore[arg-type]
        lambda: Vocabulary.load(5),  # type: ignore[arg-type]
        lambda: Vocabulary.from_tokenizer_info(5),  # type: ignore[arg-type]
        lambda: Vocabulary.from_huggingface(5),
        lambda: Vocabulary.from_huggingface(5, vocab_size=True),
        lambda: Vocabulary.from_huggingface(5, stop_token_ids=0.5),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(VocabularyError):
            call()


COMPILERS: dict[str, dict[str, Any]] = {
    "a million threads": {"n_jobs": 10**6},
    "1,025 threads": {"n_jobs": 1025},
    "no threads": {"n_jobs": 0},
    "-1 threads": {"n_jobs": -1},
    "1.5 threads": {"n_jobs": 1.5},
    "threads True": {"n_jobs": True},
    "threads in text": {"n_jobs": "2"},
    "threads None": {"n_jobs": None},
    "a million threads by XGrammar's name": {"max_threads": 10**6},
    "bytes in text": {"cache_limit_bytes": "1"},
    "half a byte": {"cache_limit_bytes": 0.5},
    "-2 bytes": {"cache_limit_bytes": -2},
    "bytes True": {"cache_limit_bytes": True},
    "bytes on disk in text": {"cache_dir": "folder", "cache_dir_limit_bytes": "1"},
    "0 bytes on disk": {"cache_dir": "folder", "cache_dir_limit_bytes": 0},
    "a folder of 5": {"cache_dir": 5},
    "no folder": {"cache_dir": ""},
    "a folder with a NUL": {"cache_dir": "a\0b"},
    "a folder with a surrogate": {"cache_dir": "a\ud800b"},
    "maybe cached": {"cache_enabled": "false"},
    "maybe on demand": {"on_demand": None},
    "maybe deterministic": {"deterministic": 1},
    "budget 5": {"budget": 5},
    "budget None": {"budget": None},
    "strategy None": {"strategy": None},
    "no such strategy": {"strategy": "fast"},
    "strategy in a list": {"strategy": ["auto"]},
    "on_budget None": {"on_budget": None},
}


@pytest.mark.parametrize("options", COMPILERS.values(), ids=COMPILERS)
def test_wrong_compilers(options: dict[str, Any]) -> None:
    """One of these arguments would have started a million threads."""
    name, value = list(options.items())[-1]
    error = StrategyError if name == "strategy" else HybridError
    said = f"{name.replace('max_threads', 'n_jobs')} must be .*, but is {re.escape(repr(value))}"
    with pytest.raises(error, match=said):
        GrammarCompiler(VOCABULARY, **options)


@pytest.mark.parametrize("strategy", ["auto", "classifier", "engine"])
@pytest.mark.parametrize(
    "value",
    [5, None, True, 1.5, b'root ::= "a"', ['root ::= "a"'], {}, object()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_text_is_no_grammar(strategy: str, value: Any) -> None:
    """A list used to be looked up in a dictionary."""
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy)
    text = 'root ::= "a"'
    calls: list[Callable[[], Any]] = [
        lambda: compiler.compile_grammar(value),
        lambda: compiler.compile_grammar(text, root_rule_name=value),
        lambda: compiler.compile_regex(value),
        lambda: compiler.compile_grammar_async(value).result(),
    ]
    if strategy != "engine":
        calls += [
            lambda: compiler.compile_lark(value),
            lambda: compiler.compile_lark('start: "a"', start=value),
        ]
    if not isinstance(value, (bool, dict)):
        calls.append(lambda: compiler.compile_json_schema(value))
    for call in calls:
        with pytest.raises(GrammarError):
            call()
    if not isinstance(value, bool):
        with pytest.raises(ArgumentError, match="static must be"):
            compiler.compile_grammar(text, static=value)
        with pytest.raises(ArgumentError, match="strict must be"):
            compiler.compile_json_schema({}, strict=value)
    compiler.close()


@pytest.mark.parametrize("semantics", ["xgrammar", "json-schema"])
@pytest.mark.parametrize(
    "options",
    [
        {"indent": "2"},
        {"separators": ",:"},
        {"strict_mode": "x"},
        {"max_whitespace_cnt": "1"},
        {"indent": 2.0},
    ],
    ids=str,
)
def test_options_of_another_type(semantics: Any, options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ArgumentError, match=f"^the option {name} must be of type .*, but is {value!r}$"):
        GrammarCompiler(VOCABULARY).compile_json_schema({}, semantics=semantics, **options)


MANY: dict[str, tuple[Any, dict[str, Any]]] = {
    "no threads": (["x"], {"n_jobs": 0}),
    "a million": (["x"], {"n_jobs": 10**6}),
    "minus a million": (["x"], {"n_jobs": -(10**6)}),
    "True": (["x"], {"n_jobs": True}),
    "half": (["x"], {"n_jobs": 0.5}),
    "text": (["x"], {"n_jobs": "2"}),
    "one text": ('root ::= "a"', {}),
    "None": (None, {}),
    "5": (5, {}),
    "no such option": ([("regex", "a", {"flags": 1})], {}),
    "no argument": ([("builtin_json", None, {"strict": True})], {}),
    "progress 5": (["x"], {"progress": 5}),
}


@pytest.mark.parametrize(("grammars", "options"), MANY.values(), ids=MANY)
def test_wrong_lists_of_grammars(grammars: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        GrammarCompiler(VOCABULARY).compile_many(grammars, **options)


def test_jobs_of_all_kinds() -> None:
    compiler: Any = GrammarCompiler(VOCABULARY, n_jobs=np.int8(2))  # type: ignore[arg-type]
    for jobs in (np.int64(2), torch.tensor(1), None, -1, -2):
        assert len(compiler.compile_many(['root ::= "a"'], jobs)) == 1


def test_wrong_arguments_of_compiled_grammars() -> None:
    compiled: Any = compiled_by("classifier")
    for call in (
        lambda: compiled.save(5),
        lambda: compiled.save("a\0b"),
        lambda: CompiledGrammar.load(None, VOCABULARY),
    ):  # type: ignore[arg-type]
        with pytest.raises(ArtifactError, match="path must be"):
            call()
    with pytest.raises(HybridError, match=r"budget must be a hybrid\.Budget, but is 5"):
        compiled.promote(budget=5)


# Copies.


@pytest.mark.parametrize("used", [False, True])
def test_a_vocabulary_is_its_own_copy_and_can_be_pickled(used: bool) -> None:
    """The pickle used to include XGrammar's description, which cannot be pickled, once it had been
    requested."""
    vocabulary = Vocabulary.from_bytes(TOKENS, stop_token_ids=1)
    if used:
        compiled = GrammarCompiler(vocabulary, strategy="engine").compile_grammar('root ::= "a"')
        assert vocabulary.prepare().tokenizer_info is compiled.tokenizer_info
    assert copy.copy(vocabulary) is vocabulary and copy.deepcopy({"of": [vocabulary]})["of"][0] is vocabulary
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(vocabulary, protocol))
        assert again.fingerprint == vocabulary.fingerprint and again.special_token_ids == ()
        assert again.tokenizer_info.vocab_size == 2
        assert GrammarCompiler(again).compile_grammar('root ::= "a"').strategy == "classifier"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_compiled_grammar_is_its_own_copy_and_is_saved_not_pickled(subject: str) -> None:
    compiled = compiled_by(subject)
    assert copy.copy(compiled) is compiled and copy.deepcopy({"of": compiled})["of"] is compiled
    with pytest.raises(ArgumentError, match=r"save\(path\).*CompiledGrammar\.load"):
        pickle.dumps(compiled)


def test_a_compiler_is_not_copied() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ArgumentError, match="threads may share one"):
            copied(compiler)


# Logits processors.


PROCESSORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "5": (5, {}),
    "None": (None, {}),
    "XGrammar's": (
        xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_grammar('root ::= "a"'),
        {},
    ),
    "a matcher": ([GrammarMatcher(compiled_by("classifier"))], {}),
    "none": ([], {}),
    "prompt True": (compiled_by("classifier"), {"prompt_length": True}),
    "prompt -1": (compiled_by("classifier"), {"prompt_length": -1}),
    "prompt 1.5": (compiled_by("classifier"), {"prompt_length": 1.5}),
    "padding in text": (compiled_by("classifier"), {"pad_token_id": "0"}),
    "padding True": (compiled_by("classifier"), {"pad_token_id": True}),
    "padding in a list": (compiled_by("classifier"), {"pad_token_id": [0]}),
    "stops in text": (compiled_by("classifier"), {"override_stop_tokens": "0"}),
    "stop True": (compiled_by("classifier"), {"override_stop_tokens": [True]}),
    "stop 400": (compiled_by("classifier"), {"override_stop_tokens": 400}),
    "no stops": (compiled_by("classifier"), {"override_stop_tokens": []}),
    "on_masked_token": (compiled_by("classifier"), {"on_masked_token": None}),
}


@pytest.mark.parametrize(("compiled", "options"), PROCESSORS.values(), ids=PROCESSORS)
def test_wrong_processors(compiled: Any, options: dict[str, Any]) -> None:
    with pytest.raises(HybridError) as caught:
        GrammarLogitsProcessor(compiled, **options)
    assert isinstance(caught.value, ValueError)


CALLS: dict[str, tuple[Any, Any, type[HybridError]]] = {
    "ids in a list": ([[0]], torch.zeros(1, 320), ArgumentError),
    "ids in one row": (torch.zeros(1, dtype=torch.int64), torch.zeros(1, 320), ArgumentError),
    "ids in floats": (torch.zeros(1, 1), torch.zeros(1, 320), ArgumentError),
    "ids in booleans": (torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1, 320), ArgumentError),
    "scores in an array": (torch.zeros(1, 1, dtype=torch.int64), np.zeros((1, 320)), ArgumentError),
    "scores in one row": (torch.zeros(1, 1, dtype=torch.int64), torch.zeros(320), ArgumentError),
    "scores in integers": (torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 320).int(), ArgumentError),
    "more scores": (torch.zeros(1, 1, dtype=torch.int64), torch.zeros(2, 320), BatchError),
    "narrow scores": (torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 319), VocabularyError),
}


@pytest.mark.parametrize(("ids", "scores", "error"), CALLS.values(), ids=CALLS)
def test_wrong_calls_of_a_processor_change_nothing(ids: Any, scores: Any, error: type[HybridError]) -> None:
    processor = GrammarLogitsProcessor(compiled_by("classifier"), override_stop_tokens=torch.tensor(3))  # type: ignore[arg-type]
    with pytest.raises(error):
        processor(ids, scores)
    assert not scores.any()
    with pytest.raises(ArgumentError, match=r"prompt_length must be .*, but is True"):
        processor.prompt_length = True
    masked = processor(torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 320))  # type: ignore[arg-type]
    assert torch.isfinite(masked[0]).nonzero().flatten().tolist() == [0, 2, 200]


def test_a_bitmask_of_a_server_is_the_same_before_and_after() -> None:
    """A server uses one tensor for all steps, with some rows of it for each matcher."""
    bitmask = allocate_token_bitmask(4, 320)
    matchers = [GrammarMatcher(compiled_by(name)) for name in SUBJECTS]
    for step in range(3):
        for row, matcher in enumerate(matchers):
            matcher.fill_next_token_bitmask(bitmask, row)
        assert len({tuple(row) for row in bitmask.tolist()}) == 1
        assert all(matcher.accept_token(0) for matcher in matchers), step
