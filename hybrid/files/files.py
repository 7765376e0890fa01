"""Compiled grammars as bytes and as files: what is stored, and how it is restored.

What: `save` and `load` implement `CompiledGrammar.save` and `CompiledGrammar.load`; `to_bytes` and
`from_bytes` are for other ways to transport the bytes. Stored are the classes, the grammar network, the
summaries that were built ahead of time, the grammar's text, and the JSON schema from which it was made.
Tries, hash tables and rows of masks are made again, which is faster than reading them.
When: to compile once and start many times: a load takes 2 to 7 ms instead of 10 to 330 (llama3).
Limits: only strategy "classifier". States that were computed on demand are not stored. The file does not
contain the vocabulary, only its fingerprint, and is refused with another vocabulary. `hybrid.files.checks`
says what is checked. Only load artefacts from sources that you would also trust with the program's code.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

import numpy as np

from equivalence import ArtifactError, HybridError, StrategyError, TokenClasses, Vocabulary
from equivalence.array_files import read_whole, write_whole
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables
from hybrid.classifier import Classifier, distinct_classes
from hybrid.classifier.summaries import Summaries, summaries_of
from hybrid.classifier.tables import Fixed, ParserTables, assembled
from hybrid.compiled import CompiledGrammar
from hybrid.files import checks, class_runs, grammar_text, lark_files
from hybrid.files.container import AGAIN, Arrays, malformed, pack, unpack
from hybrid.files.schema_text import schema_of
from hybrid.json_schema import in_xgrammar
from hybrid.lark.source import LarkGrammar
from hybrid.values.budget import Budget, check_budget

PARSED_BYTES = 2
"""About how many bytes a grammar of XGrammar takes for each byte of its serialised form."""

HEADER_BYTES = 1 << 20
"""The most bytes that a file has besides its members."""


def save(compiled: CompiledGrammar, path: str | os.PathLike[str]) -> None:
    """Write a compiled grammar to a file, completely or not at all.

    Raises:
        StrategyError: as `to_bytes`.
        OSError: the file cannot be written.
    """
    write_whole(path, to_bytes(compiled))


def load(
    path: str | os.PathLike[str], vocabulary: Vocabulary, *, budget: Budget = Budget()
) -> CompiledGrammar:
    """Read a compiled grammar; see `from_bytes`.

    Raises:
        ArtifactError: the file cannot be read, or `from_bytes` refuses it; the message names the file.
    """
    try:
        data = read_whole(path, _most_bytes(budget))
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"{os.fspath(path)!r} cannot be read ({error}); pass a file that CompiledGrammar.save wrote"
        ) from error
    try:
        return from_bytes(data, vocabulary, budget=budget)
    except ArtifactError as error:
        raise ArtifactError(f"{os.fspath(path)!r}: {error}") from error


def to_bytes(compiled: CompiledGrammar, budget: Budget | None = None) -> bytes:
    """Return a compiled grammar as bytes. Equal grammars for one vocabulary give equal bytes.

    Args:
        compiled: the grammar.
        budget: the budget with which the bytes must be readable; None if that does not matter.

    Raises:
        ArtifactError: the budget does not allow `from_bytes` to read them.
        StrategyError: the strategy is not "classifier", the grammar names token ids, or its schema has items
            or keys that must not be repeated.
    """
    classifier, classes = compiled.classifier, compiled.classes
    if compiled.deferred is not None and classes is None:
        why = compiled.deferred.refusal or "computing them takes more than Budget.seconds; raise it"
        raise StrategyError(
            f"a file needs token classes, which the grammar does not have: {why}. Without a file, compile "
            "the grammar in each process"
        )
    if classifier is None or classes is None:
        why = compiled.reason
        is_impossible = "no classifier: " in why or "no token classes: " in why
        way = (
            "compile it in each process"
            if is_impossible
            else "compile it with GrammarCompiler(vocabulary, strategy='classifier')"
        )
        raise StrategyError(
            "only grammars on strategy 'classifier' can be saved, but this one is on "
            f"{compiled.strategy!r} ({why}); {way}"
        )
    if not classifier.by_text:
        raise StrategyError(
            "the grammar names token ids, and only grammars of text can be saved; compile it in each process"
        )
    if compiled.places is not None:
        raise StrategyError(
            "the schema has items or keys that must not be repeated; files cannot store what matchers "
            "need to remember them; compile the schema in each process"
        )
    header: dict[str, Any]
    if isinstance(compiled.grammar, LarkGrammar):
        text = lark_files.text_of(compiled.grammar)
        header, arrays = {"notation": "lark", "sizes": classes.sizes}, lark_files.arrays_of(compiled)
    else:
        text = grammar_text.written(in_xgrammar(compiled.grammar))
        header, arrays = _explored(compiled, classifier, classes)
    header |= {
        "strategy": compiled.strategy,
        "reason": compiled.reason,
        "vocabulary": compiled.vocabulary.fingerprint,
        "vocabulary_size": compiled.vocabulary.size,
        "grammar": hashlib.blake2b(text, digest_size=16).hexdigest(),  # for people
        "relation": classes.relation,
    }
    arrays |= {"grammar": np.frombuffer(text, np.uint8), **class_runs.written(classes, compiled.vocabulary)}
    return pack(header, arrays, None if budget is None else budget.table_bytes, checks.TEXTS)


def _explored(
    compiled: CompiledGrammar, classifier: Classifier, classes: TokenClasses
) -> tuple[dict[str, Any], Arrays]:
    """Make the data of a grammar network and its summaries: a part of the header, and arrays."""
    fixed, known, schema = classifier.fixed, classifier.summaries, compiled.schema
    assert isinstance(fixed, Fixed), "there are classes"
    starts, nodes = known.pendings.lists()
    masks, units = known.masks.lists()[1], known.units.lists()[1]
    final, edge_starts, edges, call_starts, calls, counted = fixed.parser.net
    text = b"" if schema is None else schema.text.encode("utf-8", "surrogatepass")
    arrays: Arrays = {
        "final": final,
        "edge_lengths": np.diff(edge_starts),
        "edges": edges,
        "call_lengths": np.diff(call_starts),
        "calls": calls,
        "counted": counted,
        "rank": fixed.parser.rank,
        "behind": np.packbits(fixed.follow_sets > 0, axis=1),
        "first": known.first_rows(),
        "pending_lengths": np.diff(starts),
        "pending_nodes": nodes,
        "rows": known.known_rows().T,  # by columns, which compress to two thirds of the size
        "masks": masks.reshape(-1, fixed.n_words),
        "units": units.reshape(-1, 2),
        "schema": np.frombuffer(text, np.uint8),
    }
    header = {
        "schema": None if schema is None else [schema.strict_mode, schema.any_order],
        "left_out": None if schema is None or schema.left_out is None else list(map(list, schema.left_out)),
        "complete": known.complete,
        "start": fixed.start,
        "start_final": bool(fixed.start_final),
        # the other sizes depend on which walks were in the cache
        "sizes": {name: classes.sizes[name] for name in ("states", "contexts") if name in classes.sizes},
    }
    return header, arrays


def from_bytes(data: bytes, vocabulary: Vocabulary, *, budget: Budget = Budget()) -> CompiledGrammar:
    """Make a compiled grammar from the result of `to_bytes`.

    Args:
        data: the bytes.
        vocabulary: the vocabulary for which it was compiled.
        budget: bounds of its tables, and of compiling the grammar again if matchers outgrow them.

    Raises:
        ArtifactError: the bytes are damaged, of another version, for another vocabulary, or need more bytes
            than the budget allows; the message says what was found, what is allowed, and what to do.
    """
    began = time.perf_counter()
    if not isinstance(vocabulary, Vocabulary):
        raise HybridError(
            f"vocabulary must be a hybrid.Vocabulary, but is of type {type(vocabulary).__name__}"
        )
    check_budget(budget)
    header, arrays = unpack(bytes(data), budget.table_bytes, checks.TEXTS)
    if header.get("vocabulary") != vocabulary.fingerprint:
        raise ArtifactError(
            f"the grammar was compiled for the vocabulary {header.get('vocabulary')} of "
            f"{header.get('vocabulary_size')} ids, but the given one is {vocabulary.fingerprint} of "
            f"{vocabulary.size} ids; load it with the vocabulary that it was compiled for, or {AGAIN}"
        )
    if header.get("strategy") != "classifier":
        raise malformed(f"its strategy must be 'classifier', but is {header.get('strategy')!r}")
    sizes = header.get("sizes")
    texts = [header.get(name) for name in ("reason", "relation")]
    if not all(isinstance(text, str) for text in texts) or not isinstance(sizes, dict):
        raise malformed("its header is not complete")
    reason, relation = map(str, texts)
    classes = class_runs.read(arrays, vocabulary, relation, sizes)
    text = checks.taken(arrays, "grammar", (None,), 0, 255, np.uint8).tobytes()
    if header.get("notation") == "lark":
        lark_classifier = lark_files.classifier_of(arrays, classes, vocabulary, budget.table_bytes)
        lark = lark_files.grammar_of(text, lark_classifier.fixed.n_terminals)
        return CompiledGrammar(
            strategy="classifier", reason=reason, vocabulary=vocabulary, grammar=lark, found=classes,
            classifier=lark_classifier, timings={"load": time.perf_counter() - began},
            mask_seconds=budget.mask_seconds, source_bytes=len(text),
        )  # fmt: skip
    grammar = grammar_text.grammar_of(text, vocabulary.size)
    distinct, grouped = distinct_classes(classes, vocabulary)
    fixed = _fixed(header, arrays, distinct, vocabulary)
    known = _summaries(header, arrays, fixed)
    classifier = Classifier(fixed, grouped, vocabulary, budget.table_bytes, known)
    return CompiledGrammar(
        strategy="classifier", reason=reason, vocabulary=vocabulary, grammar=grammar, found=classes,
        classifier=classifier, budget=budget, timings={"load": time.perf_counter() - began},
        schema=schema_of(header, arrays), mask_seconds=budget.mask_seconds,
        source_bytes=PARSED_BYTES * len(text) + arrays["schema"].nbytes,
    )  # fmt: skip


def _most_bytes(budget: Budget) -> int:
    """Return how many bytes a file may have: compression hardly ever makes data larger."""
    return check_budget(budget).table_bytes + HEADER_BYTES


def _fixed(header: dict[str, Any], arrays: Arrays, texts: list[bytes], vocabulary: Vocabulary) -> Fixed:
    net, rank = checks.check_network(arrays)
    start, start_final = header.get("start"), header.get("start_final")
    if not isinstance(start, int) or not -1 <= start < len(net[0]) or not isinstance(start_final, bool):
        raise malformed(f"its start is {start!r}, {start_final!r}")
    rows = len(net[0]) + len(net[5])
    packed = checks.taken(arrays, "behind", (rows, None), 0, 255, np.uint8)
    automaton = Automaton(net)
    byte_tables = ByteTables(automaton, rank)
    n_bytes = byte_tables.n_classes
    if packed.shape[1] != (n_bytes + 7) // 8:
        raise malformed(f"member 'behind' has {packed.shape[1]} columns for {n_bytes} classes of bytes")
    follow_sets = np.ascontiguousarray(np.unpackbits(packed, axis=1, count=n_bytes))
    parser = ParserTables(automaton, byte_tables, rank, absorbing_states(automaton))
    return assembled(parser, follow_sets, texts, *vocabulary.flat, start, start_final)


def _summaries(header: dict[str, Any], arrays: Arrays, fixed: Fixed) -> Summaries:
    if not isinstance(header.get("complete"), bool):
        raise malformed(f"it is complete: {header.get('complete')!r}")
    starts, nodes = checks.check_pendings(arrays, len(fixed.texts.nodes) - 1)
    first, rows, masks, units = checks.check_summaries(
        arrays, len(fixed.parser.net[0]), len(fixed.parser.net[5]), fixed.n_words, len(starts) - 1
    )
    return summaries_of(
        first, rows, (starts, nodes), (np.arange(len(masks) + 1) * fixed.n_words, masks.ravel()),
        (2 * np.arange(len(units) + 1), units.ravel()), fixed.n_words, header["complete"],
    )  # fmt: skip
