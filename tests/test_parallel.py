"""Many grammars at once: results in order, errors raised or returned, and every available backend of joblib.

What: `GrammarCompiler.compile_many` in threads, in processes and on a Dask cluster.
When: after any change of `hybrid.api.parallel` or `hybrid.files`.
Limits: which backend is faster is measured, not tested (docs/artifacts.md). Dask is optional: ``pip install
'equimask[dask]'``.
"""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import joblib
import pytest
import xgrammar

from equivalence import GrammarError, HybridError, StrategyError, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler
from hybrid.api import parallel
from hybrid.api.parallel import Source, _Shared
from hybrid.files import to_bytes

TOKENS = [*(bytes([byte]) for byte in range(256)), b'":', b'"}', b"ab", b""]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1])

GOOD: list[Any] = [
    'root ::= "a" | "b" root',
    xgrammar.Grammar.from_ebnf("root ::= [0-9]+"),
    ("json_schema", {"type": "boolean"}),
    Source("json_schema", '{"type": "object", "not": {"required": ["a"]}}', {"strict_mode": False}),
    ("regex", "[a-f]+"),
    ("builtin_json",),
    ("grammar", 'start ::= "x"', {"root_rule_name": "start"}),
    ("grammar", xgrammar.Grammar.from_ebnf('root ::= "y"')),
    ("structural_tag", {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}),
]
BAD = ("regex", "(((")
TOKEN_LEVEL = (
    "structural_tag",
    {"type": "structural_tag", "format": {"type": "token", "token": 258}},
)


def compiler(strategy: str = "classifier", vocabulary: Vocabulary = VOCABULARY) -> GrammarCompiler:
    return GrammarCompiler(vocabulary, strategy=strategy)


def one_by_one() -> list[bytes]:
    return [to_bytes(compiled) for compiled in compiler().compile_many(GOOD)]


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine", "auto"])
def test_threads_give_what_one_thread_gives(strategy: str) -> None:
    alone = compiler(strategy).compile_many(GOOD)
    together = compiler(strategy).compile_many(GOOD, 2)
    assert [str(one.grammar) for one in together] == [str(one.grammar) for one in alone]
    assert [one.strategy for one in together] == [one.strategy for one in alone]
    if strategy == "classifier":
        assert [to_bytes(one) for one in together] == one_by_one()


def test_every_kind_is_compiled_as_its_method_does() -> None:
    found = compiler().compile_many(GOOD)
    one = compiler()
    for compiled, wanted in zip(
        found,
        [
            one.compile_grammar(GOOD[0]),
            one.compile_grammar(GOOD[1]),
            one.compile_json_schema({"type": "boolean"}),
            one.compile_json_schema(GOOD[3].argument, strict_mode=False),
            one.compile_regex("[a-f]+"),
            one.compile_builtin_json_grammar(),
            one.compile_grammar('start ::= "x"', root_rule_name="start"),
            one.compile_grammar('root ::= "y"'),
            one.compile_structural_tag(GOOD[8][1]),
        ],
        strict=True,
    ):
        assert str(compiled.grammar) == str(wanted.grammar)


def test_no_grammars_are_no_work() -> None:
    assert compiler().compile_many([], 2) == []


def test_threads_use_the_memory_cache() -> None:
    one = compiler()
    (compiled,) = one.compile_many([GOOD[0]])
    assert one.compile_grammar(GOOD[0]) is compiled


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_errors_are_raised_or_returned(backend: str) -> None:
    with joblib.parallel_config(backend=backend):
        found = compiler().compile_many([GOOD[0], BAD, GOOD[4]], 2, on_error="return")
        assert [isinstance(one, CompiledGrammar) for one in found] == [True, False, True]
        assert type(found[1]) is GrammarError
        with pytest.raises(GrammarError, match="grammar 1 of 3: XGrammar refuses the regex"):
            compiler().compile_many([GOOD[0], BAD, GOOD[4]], 2)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([5], "grammar 0 must be EBNF text, .*, but is 5"),
        (["root ::= [a]", ("yaml", "a")], "grammar 1 must be EBNF text"),
        ([("regex", "a", 5)], "must be EBNF text"),
        ([()], "must be EBNF text"),
    ],
)
def test_what_is_no_grammar_is_named(items: list[Any], message: str) -> None:
    with pytest.raises(HybridError, match=message):
        compiler().compile_many(items)


def test_an_unknown_answer_to_errors_is_named() -> None:
    with pytest.raises(HybridError, match="must be 'raise' or 'return'"):
        compiler().compile_many([], on_error="ignore")


def test_progress_is_told_in_order() -> None:
    seen: list[tuple[int, int]] = []
    compiler().compile_many(GOOD[:4], 2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


# --- Other processes ---------------------------------------------------------------------------------------


def test_processes_send_artefacts_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with joblib.parallel_config(backend="loky", temp_folder=str(tmp_path / "joblib")):
        found = compiler().compile_many([*GOOD, TOKEN_LEVEL], 2)
    assert [to_bytes(one) for one in found[:-1]] == one_by_one()
    assert [len(one.relaxed) for one in found[:-1]] == [0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert all("load" in one.timings for one in found[:-1])
    assert "load" not in found[-1].timings, "it has no artefact, and is compiled here"
    assert not list(tmp_path.glob("equimask-*"))


def test_processes_share_the_folder_of_compiled_grammars(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    with joblib.parallel_config(backend="loky"):
        made = GrammarCompiler(VOCABULARY, strategy="classifier", cache_dir=folder)
        written = [to_bytes(one) for one in made.compile_many([*GOOD, TOKEN_LEVEL], 2)[:-1]]
        files = {path.name: path.stat().st_ino for path in folder.iterdir()}
        again = GrammarCompiler(VOCABULARY, strategy="classifier", cache_dir=folder)
        found = again.compile_many(GOOD, 2)
    assert len(files) == len(GOOD) and written == one_by_one() == [to_bytes(one) for one in found]
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == files, "found, not written again"
    here = GrammarCompiler(VOCABULARY, strategy="classifier", cache_dir=folder)
    here.compile_many(GOOD)
    assert here.stats()["disk"]["hits"] == len(GOOD) and here.stats()["compilations"] == 0


def test_a_folder_travels_where_it_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sent = GrammarCompiler(
        VOCABULARY, strategy="classifier", cache_dir="relative", cache_dir_limit_bytes=10**6
    )
    shared = _Shared(sent)
    data = pickle.dumps(shared)
    shared.close()
    monkeypatch.chdir("/")
    disk = pickle.loads(data).compiler._disk
    assert (disk.folder, disk.limit_bytes) == (tmp_path / "relative", 10**6)
    parallel._last.clear()
    (tmp_path / "relative").rmdir()
    assert pickle.loads(data).compiler._disk is None
    assert not list(tmp_path.iterdir()), "nothing is made on a machine that has no such folder"


def test_processes_refuse_strategies_without_artefacts() -> None:
    with joblib.parallel_config(backend="loky"), pytest.raises(StrategyError, match="backend 'threading'"):
        compiler("representatives").compile_many(GOOD, 2)


def test_a_compiler_travels_with_all_that_masks_depend_on(tmp_path: Path) -> None:
    """Pickle and unpickle in this process, as if for another one."""
    vocabulary = Vocabulary.from_bytes(TOKENS, stop_token_ids=[65, 3], cache_dir=tmp_path).prepare()
    sent = GrammarCompiler(vocabulary, strategy="classifier", on_demand=True, n_jobs=2)
    shared = _Shared(sent)
    received = pickle.loads(pickle.dumps(shared))
    assert received.is_in_worker and not shared.is_in_worker
    assert received.compiler.vocabulary.fingerprint == vocabulary.fingerprint
    for name in ("strategy", "budget", "n_jobs", "on_demand"):
        assert getattr(received.compiler, name) == getattr(sent, name)
    assert pickle.loads(pickle.dumps(shared)).compiler is received.compiler, "kept for the next batch"
    assert len(list(tmp_path.iterdir())) == 1, "the trie was there"
    shared.close()
    assert len(list(tmp_path.iterdir())) == 1, "and is not ours to remove"


def test_a_machine_that_does_not_see_the_folder_builds_the_trie() -> None:
    shared = _Shared(compiler(vocabulary=Vocabulary.from_bytes([*TOKENS, b"more"])))
    data = pickle.dumps(shared)
    shared.close()
    received = pickle.loads(data)
    assert received.compiler.vocabulary._cache_dir is None
    assert received.compiler.compile_regex("a+").strategy == "classifier"


@pytest.mark.slow
def test_a_cluster_of_dask_takes_the_work() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is optional: pip install 'equimask[dask]'")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        found = compiler().compile_many(GOOD, on_error="return")
        bad = compiler().compile_many([BAD], on_error="return")
    assert [to_bytes(one) for one in found] == one_by_one()
    assert isinstance(bad[0], GrammarError)
