"""Walks that outlive the process: the same classes whatever a file holds, and no file is believed blindly."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from equivalence.classes import compute_classes
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.store import Arrays, Unusable, read_arrays, write_arrays
from equivalence.vocabulary import Vocabulary
from equivalence.walks.kept import KeptWalks, Shelf, stored, walks
from equivalence.walks.kept.generation import Generation, interned_of
from hybrid import GrammarCompiler
from tests.test_kept import SCHEMAS, TOKENS, classes, of_schema, several_grammars

pytestmark = pytest.mark.kernels

WORDS = [bytes([value]) for value in b'{}[]":,1a\\x'] + [b'":', b'a"', b'",', b"a1", b"12]", b"a:", b"x,"]
TEXT = 'root ::= "[" word ("," word)* "]"\nword ::= "\\"" [a-z]{0,9} "\\"" | number\nnumber ::= [0-9]+ ":"?'


def small(folder: Path | None = None) -> Vocabulary:
    return Vocabulary.from_bytes(WORDS, cache_dir=folder)


def grammar() -> xgrammar.Grammar:
    return xgrammar.Grammar.from_ebnf(TEXT)


def filled(vocabulary: Vocabulary, shelf: Shelf | None = None) -> KeptWalks:
    store = KeptWalks(shelf=shelf)
    classes(grammar(), vocabulary, store)
    return store


def shelf_of(vocabulary: Vocabulary, folder: Path) -> Shelf:
    return Shelf(folder, vocabulary.fingerprint, vocabulary.trie)


def arrays_of(store: KeptWalks) -> Arrays:
    return stored.as_arrays(store._young.snapshot(), store._old.snapshot())


class Listener(logging.Handler):
    """Messages at level WARNING and above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def warnings_logged() -> Iterator[list[str]]:
    listener, logger = Listener(), logging.getLogger("equivalence")
    logger.addHandler(listener)
    yield listener.messages
    logger.removeHandler(listener)


# --- The same classes --------------------------------------------------------------------------------------


@given(several_grammars(), st.sampled_from([200_000, 1 << 24]), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_random_grammars(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[list[str], list[bytes]], limit: int, before: int
) -> None:
    """Whatever was kept, written, read and written again, of whichever grammars."""
    texts, tokens = case
    vocabulary = Vocabulary.from_bytes(tokens)
    grammars = [xgrammar.Grammar.from_ebnf(text) for text in texts]
    try:
        wanted = [classes(each, vocabulary, None) for each in grammars]
    except (BudgetExceeded, UnsupportedGrammar):
        reject()
    shelf = shelf_of(vocabulary, tmp_path_factory.mktemp("walks"))
    numbers = range(len(grammars))
    for some in (numbers[:before], reversed(numbers), numbers):
        store = KeptWalks(limit, shelf)
        for number in some:
            assert classes(grammars[number], vocabulary, store) == wanted[number]
        store.save()


@pytest.mark.parametrize("limit", [600_000, 1 << 24])
def test_schemas(tmp_path: Path, limit: int) -> None:
    """Both generations come back, and a walk of one process is found by the next."""
    vocabulary = Vocabulary.from_bytes(TOKENS)
    shelf = shelf_of(vocabulary, tmp_path)
    wanted = [classes(of_schema(schema), vocabulary, None) for schema in SCHEMAS]
    misses = []
    for _ in range(3):
        store = KeptWalks(limit, shelf)
        for schema, expected in zip(SCHEMAS, wanted, strict=True):
            assert classes(of_schema(schema), vocabulary, store) == expected
            assert store.n_bytes <= limit
        misses.append(store.misses)
        store.save()
    assert misses[0] > max(misses[1:])
    assert (store.turns > 0) == (limit < 1 << 20)


def test_what_is_read_back_is_what_was_written() -> None:
    vocabulary = Vocabulary.from_bytes(TOKENS)
    store = KeptWalks()
    for schema in SCHEMAS:
        classes(of_schema(schema), vocabulary, store)
        if schema is SCHEMAS[3]:
            store._old, store._young = store._young, Generation()
    arrays = arrays_of(store)
    assert len(arrays["young.names"]) and len(arrays["old.names"])
    young, old = stored.read_back(arrays, vocabulary.trie)
    again = stored.as_arrays(young.snapshot(), old.snapshot())
    assert list(again) == list(arrays)
    for name, array in arrays.items():
        assert array.dtype == again[name].dtype, name
        assert np.array_equal(array, again[name]), name


def test_a_snapshot_stays_as_it_was() -> None:
    vocabulary = Vocabulary.from_bytes(TOKENS)
    store = KeptWalks()
    classes(of_schema(SCHEMAS[0]), vocabulary, store)
    noted = store._young.snapshot(), store._old.snapshot()
    before = stored.as_arrays(*noted)
    for schema in SCHEMAS[1:]:
        classes(of_schema(schema), vocabulary, store)
    after = stored.as_arrays(*noted)
    assert all(np.array_equal(array, after[name]) for name, array in before.items())
    assert stored.n_walks(arrays_of(store)) > stored.n_walks(before)


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, (1 << 31) - 1, -(1 << 31)])
def test_large_integers_of_lists_are_written_in_full(value: int) -> None:
    starts, pool = interned_of(np.array([0, 2, 3]), np.array([7, value, value])).lists()
    cells = stored._narrowed(pool)
    assert starts.tolist() == [0, 2, 3] and cells.tolist() == [7, value, value]
    assert cells.dtype == (np.int32 if -(1 << 31) <= value < 1 << 31 else np.int64)


# --- What is not believed ----------------------------------------------------------------------------------


def test_every_damage_is_found(tmp_path: Path, warnings_logged: list[str]) -> None:
    """Of the magic, the digest, the header and the arrays; and the file is written anew."""
    vocabulary = small()
    shelf = shelf_of(vocabulary, tmp_path)
    wanted = classes(grammar(), vocabulary, None)
    assert filled(vocabulary, shelf).save()
    whole = shelf.path.read_bytes()
    step = 61
    places = [*range(0, 56, 9), *range(56, len(whole), step), len(whole) - 1]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        shelf.path.write_bytes(damaged)
        store = KeptWalks(shelf=shelf)
        store.load()
        assert not store._young.used_bytes or not store._young.n_walks, place
    assert len(warnings_logged) == len(places)
    for length in (0, 20, 56, len(whole) // 2, len(whole) - 1):
        shelf.path.write_bytes(whole[:length])
        store = KeptWalks(shelf=shelf)
        assert classes(grammar(), vocabulary, store) == wanted
        assert store.misses == filled(vocabulary).misses
    assert store.save()
    assert shelf.path.read_bytes() == whole


def test_another_vocabulary_another_code_or_version_is_not_read(
    tmp_path: Path, warnings_logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary, other = small(), Vocabulary.from_bytes([*WORDS, b"more"])
    shelf, foreign = shelf_of(vocabulary, tmp_path), shelf_of(other, tmp_path)
    filled(other, foreign).save()
    assert foreign.path != shelf.path
    shutil.copy(foreign.path, shelf.path)
    cold = filled(vocabulary).misses
    assert filled(vocabulary, shelf).misses == cold
    assert "its key is" in warnings_logged[-1]
    store = filled(vocabulary, shelf)
    assert store.save(), "what cannot be used is replaced, whatever it holds"
    assert filled(vocabulary, shelf).misses < cold
    monkeypatch.setattr(stored, "kind", lambda: "walks of other code")
    assert filled(vocabulary, shelf).misses == cold
    assert "its kind is" in warnings_logged[-1]


def test_the_code_is_part_of_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    uncached = stored.kind.__wrapped__
    assert uncached() == stored.kind()
    read_bytes = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: read_bytes(path) + b" " * (path.parent.name == "kept")
    )
    assert uncached() != stored.kind()


def change(arrays: Arrays, name: str, index: Any, value: int) -> Arrays:
    changed = {each: array.copy() for each, array in arrays.items()}
    changed[f"young.{name}"][index] = value
    return changed


WRONG = [
    ("list_starts", 0, 1), ("list_starts", 1, 1 << 40), ("list_starts", -1, 0), ("names", 0, -1),
    ("names", 0, 1 << 30), ("bytes", 0, 255), ("range_starts", 0, 1), ("range_starts", 1, -5),
    ("range_starts", -1, 1 << 30), ("ranges", (0, 0), -1), ("ranges", (0, 1), 1 << 30),
    ("event_starts", 1, 1 << 40), ("events", (0, 0), -1), ("events", (0, 0), 1 << 30), ("events", (0, 1), 0),
    ("events", (0, 1), 1), ("events", (0, 1), -1), ("events", (0, 1), 1 << 30), ("outcome_starts", 1, 0),
    ("outcome_starts", 3, 4), ("outcome_cells", 0, 0), ("outcome_cells", 2, -2), ("outcome_cells", 3, -1),
    ("outcome_cells", 3, 1 << 20), ("outcome_cells", 4, 0), ("outcome_cells", 4, 1 << 20),
]  # fmt: skip


@pytest.mark.parametrize(("name", "index", "value"), WRONG)
def test_arrays_that_do_not_fit_are_refused(name: str, index: Any, value: int) -> None:
    """Also where their digest fits."""
    vocabulary = small()
    arrays = arrays_of(filled(vocabulary))
    stored.read_back(arrays, vocabulary.trie)
    with pytest.raises(Unusable, match="it does not hold walks"):
        stored.read_back(change(arrays, name, index, value), vocabulary.trie)


def test_other_names_types_and_shapes_are_refused(tmp_path: Path, warnings_logged: list[str]) -> None:
    vocabulary = small()
    shelf = shelf_of(vocabulary, tmp_path)
    store = filled(vocabulary)
    arrays = arrays_of(store)
    for name in stored.MEMBERS:
        full = f"young.{name}"
        array = arrays[full]
        others = [array.astype(np.float64), array[:-1], array.reshape(1, -1)]
        for changed in [{**arrays, full: other} for other in others] + [
            {each: value for each, value in arrays.items() if each != full}
        ]:
            if name == "list_cells" and len(changed.get(full, ())) == len(array) - 1:
                continue
            with pytest.raises(Unusable):
                stored.read_back(changed, vocabulary.trie)
            write_arrays(shelf.path, changed, kind=stored.kind(), key=vocabulary.fingerprint)
            filled(vocabulary, shelf)
            assert "walks are made anew" in warnings_logged[-1]


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_no_forged_file_leads_out_of_the_arrays(data: st.DataObject) -> None:
    """Whatever passes the checks gives classes or an error, maybe wrong ones, and no access out of range
    (which the run of these tests with bounds checked would raise)."""
    vocabulary = small()
    arrays = arrays_of(filled(vocabulary))
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(list(stored.MEMBERS)))
        array = arrays[f"young.{name}"]
        at = data.draw(st.integers(0, array.size - 1))
        low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
        small_ones = st.integers(max(low, -3), min(high, 70))
        value = data.draw(small_ones | st.sampled_from([low, high, min(1 << 29, high)]))
        array.flat[at] = value
    store = KeptWalks()
    try:
        store._young, store._old = stored.read_back(arrays, vocabulary.trie)
    except Unusable:
        return
    for text in (TEXT, 'root ::= "[" word "]"\nword ::= "\\"" [a-z]{0,9} "\\"" root?'):
        classes(xgrammar.Grammar.from_ebnf(text), vocabulary, store)


# --- Who writes, and when ----------------------------------------------------------------------------------


def test_a_vocabulary_reads_and_writes_its_folder(tmp_path: Path) -> None:
    vocabulary = small(tmp_path)
    assert not vocabulary.save_walks(), "nothing is kept"
    first = compute_classes(grammar(), vocabulary)
    assert vocabulary.save_walks()
    assert not vocabulary.save_walks(), "the file has them all"
    for next_one in (small(tmp_path), small().prepare(tmp_path), pickle.loads(pickle.dumps(vocabulary))):
        found = compute_classes(grammar(), next_one)
        assert np.array_equal(found.class_of_token, first.class_of_token)
        assert next_one.kept_walks.hits > vocabulary.kept_walks.hits
        assert not next_one.save_walks(), "there is nothing new"


def test_walks_may_be_written_to_another_folder(tmp_path: Path) -> None:
    vocabulary = small()
    compute_classes(grammar(), vocabulary)
    assert not vocabulary.save_walks(), "no folder is known"
    assert vocabulary.save_walks(tmp_path / "not" / "yet")
    assert vocabulary.kept_walks.shelf is None
    assert small().prepare(tmp_path / "not" / "yet").kept_walks.n_bytes
    # a folder that is known later does not replace what is kept already
    before = vocabulary.kept_walks.misses
    vocabulary.prepare(tmp_path / "other")
    compute_classes(grammar(), vocabulary)
    assert vocabulary.kept_walks.misses - before < before
    assert vocabulary.save_walks()
    assert len(list((tmp_path / "other").glob("walks-*"))) == 1


def test_closing_a_compiler_writes(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[len(TOKENS)], cache_dir=tmp_path)
    with GrammarCompiler(vocabulary, strategy="classifier") as compiler:
        compiler.compile_grammar(grammar())
    (file,) = tmp_path.glob("walks-*")
    assert file.name == f"walks-{stored.STORED_VERSION}-{vocabulary.fingerprint}.arrays"
    with GrammarCompiler(Vocabulary.from_bytes(TOKENS)) as compiler:
        compiler.compile_grammar(grammar())


def test_a_store_that_has_doubled_is_written_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "FIRST_BYTES", 1)
    vocabulary = Vocabulary.from_bytes(TOKENS)
    store = KeptWalks(shelf=shelf_of(vocabulary, tmp_path))
    counts = []
    for _ in range(2):
        for schema in SCHEMAS:
            classes(of_schema(schema), vocabulary, store)
            for thread in threading.enumerate():
                if thread.name == "equimask-walks":
                    thread.join()
            assert store.shelf is not None
            counts.append(stored.n_walks(read(store.shelf)))
    assert counts == sorted(counts)
    assert 1 < len(set(counts)) <= 1 + np.log2(counts[-1] / counts[0]) + 1
    shutil.rmtree(tmp_path)
    store._saved_bytes = 1
    classes(of_schema(SCHEMAS[0]), vocabulary, store)
    for thread in threading.enumerate():
        if thread.name == "equimask-walks":
            thread.join()
    assert not tmp_path.exists(), "a folder that was removed is not made again by itself"


def read(shelf: Shelf) -> Arrays:
    return read_arrays(shelf.path, kind=stored.kind(), key=shelf.fingerprint)


def test_fewer_walks_of_another_process_replace_nothing(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_bytes(TOKENS)
    shelf = shelf_of(vocabulary, tmp_path)
    few, many = KeptWalks(shelf=shelf), KeptWalks(shelf=shelf)
    classes(grammar(), vocabulary, few)
    for schema in SCHEMAS:
        classes(of_schema(schema), vocabulary, many)
    assert few.save() and many.save(), "more replaces fewer"
    whole = shelf.path.read_bytes()
    classes(xgrammar.Grammar.from_ebnf('root ::= "x" [0-9]{2,4} "]"'), vocabulary, few)
    assert not few.save()
    assert shelf.path.read_bytes() == whole
    # fewer may replace what they began with: those that nobody asked for are dropped
    later = KeptWalks(500_000, shelf)
    for schema in [*SCHEMAS, *SCHEMAS]:
        classes(of_schema(schema), vocabulary, later)
    assert later.turns
    assert later.save()
    assert shelf.path.read_bytes() != whole


def test_a_file_beyond_the_bound_is_not_read(tmp_path: Path, warnings_logged: list[str]) -> None:
    vocabulary = Vocabulary.from_bytes(TOKENS)
    shelf = shelf_of(vocabulary, tmp_path)
    many = KeptWalks(shelf=shelf)
    for schema in SCHEMAS:
        classes(of_schema(schema), vocabulary, many)
    many.save()
    assert shelf.path.stat().st_size > 70_000
    for limit in (0, 1000):
        store = KeptWalks(limit, shelf)
        store.load()
        assert not store._young.n_walks
    assert len(warnings_logged) == 1 and "1000 bytes" in warnings_logged[0]


def test_a_folder_that_cannot_be_written_costs_one_warning(
    tmp_path: Path, warnings_logged: list[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    vocabulary = small()
    store = filled(vocabulary)
    store.load(shelf_of(vocabulary, tmp_path / "file"))
    assert not store.save() and not store.save()
    assert len(warnings_logged) == 1 and "cannot be written" in warnings_logged[0]
    (tmp_path / "file").unlink()
    assert store.save(), "it is tried again"


def test_a_file_that_vanishes_is_written_when_there_is_more(tmp_path: Path) -> None:
    vocabulary = small()
    shelf = shelf_of(vocabulary, tmp_path)
    store = filled(vocabulary, shelf)
    assert store.save()
    shelf.path.unlink()
    classes(xgrammar.Grammar.from_ebnf('root ::= "x" [0-9]{2,4} "]"'), vocabulary, store)
    assert store.save() and shelf.path.exists()


def test_a_shelf_may_come_while_walks_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of lists that are replaced meanwhile are not used for others."""
    vocabulary = small()
    shelf = shelf_of(vocabulary, tmp_path)
    other = KeptWalks(shelf=shelf)
    classes(xgrammar.Grammar.from_ebnf('root ::= "x" [0-9]{2,4} "]"'), vocabulary, other)
    other.save()
    store = KeptWalks()
    walk = walks.walk_missing

    def interrupted(*arguments: Any) -> Any:
        if not store.hits and not store.misses:
            store.load(shelf)
        return walk(*arguments)

    monkeypatch.setattr(walks, "walk_missing", interrupted)
    for text in (TEXT, 'root ::= "x" [0-9]{2,4} "]"', TEXT):
        found = classes(xgrammar.Grammar.from_ebnf(text), vocabulary, store)
        assert found == classes(xgrammar.Grammar.from_ebnf(text), vocabulary, None)
    assert store.hits


def _write_and_read(folder: str, number: int, times: int) -> int:
    """In a process of its own: how often walks were written or read whole."""
    vocabulary = small()
    shelf = shelf_of(vocabulary, Path(folder))
    texts = [TEXT, 'root ::= "x" [0-9]{2,4} "]" | "{" [a-z]* "}"']
    done = 0
    for _ in range(times):
        store = KeptWalks(shelf=shelf)
        for text in (texts[number], texts[1 - number]):
            own = xgrammar.Grammar.from_ebnf(text)
            done += classes(own, vocabulary, store) == classes(own, vocabulary, None)
            if number:
                store._digest = None  # as if it knew nothing of the file, so that it reads it first
            store.save()
        stored.read_back(read(shelf), vocabulary.trie)
    return done


def test_processes_may_write_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.starmap(_write_and_read, [(str(tmp_path), 0, 25), (str(tmp_path), 1, 25)])
    assert counts == [50, 50]
    assert [file.name.split("-")[0] for file in tmp_path.iterdir()] == ["walks"]
