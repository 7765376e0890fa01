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
from adapters.xgrammar.errors import as_xgrammar
from equivalence import ArgumentError, ArtifactError, BatchError, GrammarError, HybridError, VocabularyError
from equivalence.errors import NotInstalled
from hybrid import (
    CompiledGrammar,
    GrammarCompiler,
    GrammarMatcher,
    SchemaRefused,
    StrategyError,
    Vocabulary,
    compute_classes,
)
from hybrid.device import DeviceGather
from hybrid.drafts import DraftModel
from tests.misuse import SUBJECTS, VOCABULARY, compiled_by, each

TOKENS = [b"a", b"b"]


VOCABULARIES: dict[str, list[Any]] = {
    "tokens": [5, None, "ab", b"ab", [bytearray(b"a")]],
    "stop_token_ids": [True, np.array([True]), 1.0, "0", b"\0", None, [[0]], torch.tensor(2)],
    "special_token_ids": [1, None],
    "vocab_size": ["1", True, 1.5, 10**12],
}


@pytest.mark.parametrize(("name", "value"), each(VOCABULARIES), ids=repr)
def test_wrong_vocabularies(name: str, value: Any) -> None:
    with pytest.raises(VocabularyError):
        Vocabulary.from_bytes(**{"tokens": TOKENS, name: value})


def test_integers_of_all_kinds_make_vocabularies() -> None:
    expected = Vocabulary.from_bytes(TOKENS, stop_token_ids=1, special_token_ids=[0], vocab_size=3)
    one: Any = np.uint8(1)
    for stop in (one, torch.tensor(1), np.array([1]), torch.tensor([1]), {1}, (1, 1), np.array(1)):
        found = Vocabulary.from_bytes(
            TOKENS, stop_token_ids=stop, special_token_ids=np.zeros(1, int), vocab_size=one + 2
        )
        assert found.fingerprint == expected.fingerprint
        assert {type(one) for one in (*found.stop_token_ids, *found.special_token_ids, found.size)} == {int}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((name, {}) for name in ("save", "load", "from_tokenizer_info", "from_huggingface")),
        ("from_huggingface", {"vocab_size": True}),
        ("from_huggingface", {"stop_token_ids": 0.5}),
    ],
)
def test_other_wrong_arguments_of_vocabularies(method: str, options: dict[str, Any]) -> None:
    with pytest.raises(VocabularyError):
        getattr(VOCABULARY, method)(5, **options)


COMPILERS: dict[str, list[Any]] = {
    "n_jobs": [10**6, 1025, 0, -1, 1.5, True, "2", None],
    "max_threads": [10**6],
    "cache_limit_bytes": ["1", 0.5, -2, True],
    "cache_dir_limit_bytes": ["1", 0],
    "cache_dir": [5, "", "a\0b", "a\ud800b"],
    "cache_enabled": ["false"],
    "on_demand": [None],
    "deterministic": [1],
    "budget": [5, None],
    "strategy": [None, "fast", ["auto"]],
    "on_budget": [None],
}


@pytest.mark.parametrize(("name", "value"), each(COMPILERS), ids=repr)
def test_wrong_compilers(name: str, value: Any) -> None:
    """One of these arguments would have started a million threads."""
    beside = {"cache_dir": "folder"} if name == "cache_dir_limit_bytes" else {}
    said = f"{name.replace('max_threads', 'n_jobs')} must be .*, but is {re.escape(repr(value))}"
    with pytest.raises(StrategyError if name == "strategy" else HybridError, match=said):
        GrammarCompiler(VOCABULARY, **beside, **{name: value})


@pytest.mark.parametrize("value", [5, None, True, 1.5, b'root ::= "a"', ['root ::= "a"'], {}, object()])
def test_what_is_no_text_is_no_grammar(value: Any) -> None:
    """A list used to be looked up in a dictionary."""
    compiler = GrammarCompiler(VOCABULARY)
    text = 'root ::= "a"'
    calls: list[Callable[[], Any]] = [
        lambda: compiler.compile_grammar(value),
        lambda: compiler.compile_grammar(text, root_rule_name=value),
        lambda: compiler.compile_regex(value),
        lambda: compiler.compile_grammar_async(value).result(),
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


OPTIONS: dict[str, list[Any]] = {
    "indent": ["2", 2.0], "separators": [",:"], "strict_mode": ["x"], "max_whitespace_cnt": ["1"],
}  # fmt: skip


@pytest.mark.parametrize("semantics", ["xgrammar", "json-schema"])
@pytest.mark.parametrize(("name", "value"), each(OPTIONS), ids=repr)
def test_options_of_another_type(semantics: Any, name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"^the option {name} must be of type .*, but is {value!r}$"):
        GrammarCompiler(VOCABULARY).compile_json_schema({}, semantics=semantics, **{name: value})


MANY: dict[str, list[Any]] = {
    "grammars": ['root ::= "a"', None, 5, [("regex", "a", {"flags": 1})],
                 [("builtin_json", None, {"strict": True})]],
    "n_jobs": [0, 10**6, -(10**6), True, 0.5, "2"],
    "progress": [5],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), each(MANY), ids=repr)
def test_wrong_lists_of_grammars(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError):
        GrammarCompiler(VOCABULARY).compile_many(**{"grammars": ["x"], name: value})


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


@pytest.mark.parametrize("grammar", ['root ::= "a"', 5, None, compiled_by("lark").grammar], ids=repr)
def test_what_has_no_classes(grammar: Any) -> None:
    with pytest.raises(ArgumentError, match=r"grammar must be an xgrammar\.Grammar"):
        compute_classes(grammar, VOCABULARY)
    with pytest.raises(ArgumentError, match="vocabulary must be a Vocabulary"):
        compute_classes(xgrammar.Grammar.from_regex("a"), VOCABULARY.tokens)  # type: ignore[arg-type]


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


def test_neither_are_draft_models_and_gathers() -> None:
    drafts, gather = DraftModel(compiled_by(SUBJECTS[0])), DeviceGather(VOCABULARY.size, "cpu", max_rows=1)
    for one, told in ((drafts, "merge"), (gather, "make a new one")):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(ArgumentError, match=told):
                copied(one)


ERRORS: list[HybridError] = [
    SchemaRefused("invalid", "type", "/a", "is no type"),
    NotInstalled("it", "torch", "all"),
    VocabularyError("no"),
]


@pytest.mark.parametrize("error", [*ERRORS, *map(as_xgrammar, ERRORS)], ids=repr)
def test_errors_can_be_copied_and_pickled(error: Exception) -> None:
    """Pools of processes send them: one that cannot be unpickled breaks the pool."""
    for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error) and str(again) == str(error)
        assert vars(again) == vars(error)


# Logits processors.


PROCESSORS: dict[str, list[Any]] = {
    "grammar": [5, None, [], [GrammarMatcher(compiled_by("classifier"))],
                xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_grammar('root ::= "a"')],
    "prompt_length": [True, -1, 1.5],
    "pad_token_id": ["0", True, [0]],
    "override_stop_tokens": ["0", [True], 400, []],
    "on_masked_token": [None],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), each(PROCESSORS))
def test_wrong_processors(name: str, value: Any) -> None:
    given = {"grammar": compiled_by("classifier"), name: value}
    with pytest.raises(HybridError) as caught:
        GrammarLogitsProcessor(given.pop("grammar"), **given)
    assert isinstance(caught.value, ValueError)


IDS, SCORES = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 320)
CALLS: dict[str, tuple[Any, Any, type[HybridError]]] = {
    "ids in a list": ([[0]], SCORES, ArgumentError),
    "ids in one row": (IDS[0], SCORES, ArgumentError),
    "ids in floats": (IDS.float(), SCORES, ArgumentError),
    "ids in booleans": (IDS.bool(), SCORES, ArgumentError),
    "scores in an array": (IDS, SCORES.numpy(), ArgumentError),
    "scores in one row": (IDS, SCORES[0], ArgumentError),
    "scores in integers": (IDS, SCORES.int(), ArgumentError),
    "more scores": (IDS, SCORES.repeat(2, 1), BatchError),
    "narrow scores": (IDS, SCORES[:, :319], VocabularyError),
}


@pytest.mark.parametrize(("ids", "scores", "error"), CALLS.values(), ids=CALLS)
def test_wrong_calls_of_a_processor_change_nothing(ids: Any, scores: Any, error: type[HybridError]) -> None:
    processor = GrammarLogitsProcessor(compiled_by("classifier"), override_stop_tokens=torch.tensor(3))  # type: ignore[arg-type]
    with pytest.raises(error):
        processor(ids, scores)
    assert not scores.any()
    with pytest.raises(ArgumentError, match=r"prompt_length must be .*, but is True"):
        processor.prompt_length = True
    assert torch.isfinite(processor(IDS, SCORES.clone())[0]).nonzero().flatten().tolist() == [0, 2, 200]
