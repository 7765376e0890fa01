"""The compiler: a grammar in, a `CompiledGrammar` on the best strategy out.

What: XGrammar's `GrammarCompiler`, with its methods and options; the grammar is parsed by XGrammar, its token
classes are computed, and a classifier is made of them, or XGrammar compiles it over one representative per
class. Lark grammars are parsed by Lark.
When: one per vocabulary; thread-safe.
Limits: equal calls are served from a bounded memory cache, and those that come while the first is under way
wait for it; a folder keeps compiled grammars for other processes where one is given (docs/caches.md).
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal

import xgrammar

from equivalence import (
    BudgetExceeded,
    GrammarError,
    HybridError,
    StrategyError,
    UnsupportedGrammar,
    Vocabulary,
)
from equivalence.byte_strings import Features, find_features
from equivalence.classes import TokenClasses, classes_and_network, compute_classes
from equivalence.network import Network
from equivalence.network.reading import check_version
from hybrid.cache import DiskCache
from hybrid.classifier import Classifier, build_summaries, distinct_classes, fixed_tables
from hybrid.classifier.minimise import minimised
from hybrid.compiled import CompiledGrammar
from hybrid.factored import FactoredClassifier, LarkGrammar, build
from hybrid.factored import fixed_tables as lark_tables
from hybrid.gather import Gather
from hybrid.parallel import Source, compile_all
from hybrid.relaxed import describe, schema_text
from hybrid.sanitize import prefix_closed, refuse_endless_rules, shield_root, without_lookahead
from hybrid.statistics import Statistics
from hybrid.strategy import Budget, check_strategy
from hybrid.token_level import (
    in_engine_ids,
    refuse_beyond_stacks,
    refuse_captured_representatives,
    refuse_missing_bytes,
    refuse_unknown_ids,
)

DEFAULT_CACHE_BYTES = 512 * 2**20

logger = logging.getLogger("hybrid")


class GrammarCompiler:
    """Compiles grammars for one vocabulary.

    Args:
        vocabulary: a `Vocabulary`, or an `xgrammar.TokenizerInfo`.
        strategy: "auto" (a classifier on demand; where there can be none, representatives; where classes
            cannot be had, the engine), "classifier" (ahead of time, or by name what else can be had),
            "representatives" (an error where they cannot be had) or "engine" (plain XGrammar).
        cache_dir: folder that keeps compiled grammars on strategy "classifier" for other processes, or for
            the next one; made if it is missing (docs/caches.md). None keeps nothing on disk.
        cache_dir_limit_bytes: bound of that folder (least recently used out first); -1 is 1 GiB.
        budget: bounds of one compilation.
        n_jobs: threads of XGrammar's own compilation, and of the methods that end in ``_async``.
        max_threads: XGrammar's name for `n_jobs`.
        cache_enabled: keep compiled grammars in memory and return the same object for an equal call.
        cache_limit_bytes: bound of that memory (least recently used out first); -1 is 512 MiB.
        on_demand: let a classifier find its states when a text first asks for them, in place of all of them
            ahead of time: compiles faster, and the first texts are slower.

    Raises:
        StrategyError, HybridError: an argument that is not allowed; the message says what is.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | xgrammar.TokenizerInfo,
        *,
        strategy: str = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        cache_dir_limit_bytes: int = -1,
        budget: Budget = Budget(),
        n_jobs: int = 1,
        max_threads: int | None = None,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
        on_demand: bool = False,
    ) -> None:
        if isinstance(vocabulary, xgrammar.TokenizerInfo):
            vocabulary = Vocabulary.from_tokenizer_info(vocabulary)
        if not isinstance(vocabulary, Vocabulary):
            raise HybridError(
                f"vocabulary is {type(vocabulary).__name__}, allowed are hybrid.Vocabulary and "
                "xgrammar.TokenizerInfo; see Vocabulary.from_huggingface"
            )
        threads: object = n_jobs if max_threads is None else max_threads
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise HybridError(f"n_jobs is {threads!r}, allowed is an integer of at least 1")
        if not isinstance(budget, Budget):
            raise HybridError(f"budget is {budget!r}, allowed is a hybrid.Budget")
        self.vocabulary = vocabulary
        self.strategy = check_strategy(strategy)
        self.budget = budget
        self.n_jobs = threads
        self.on_demand = bool(on_demand)
        self._cache_enabled = cache_enabled
        self._cache_limit = DEFAULT_CACHE_BYTES if cache_limit_bytes < 0 else cache_limit_bytes
        # with each its size when it was put in: a classifier grows in use
        self._cache: OrderedDict[Any, tuple[CompiledGrammar, int]] = OrderedDict()
        self._cache_bytes = 0
        self._generation = 0
        self._under_way: dict[Any, Future[CompiledGrammar]] = {}
        self._lock = threading.Lock()
        self._statistics = Statistics()
        self._disk: DiskCache | None = None
        if cache_dir is not None:
            settings = {"strategy": strategy, "on_demand": self.on_demand, "budget": repr(budget)}
            self._disk = DiskCache(
                cache_dir, cache_dir_limit_bytes, vocabulary, budget, settings, self._statistics.count
            )
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._plain: xgrammar.GrammarCompiler | None = None
        self.on_phase: Callable[[str], None] = _nothing
        """Told the phase that begins, "classes" or "summaries", where a classifier is made."""

    @property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """The whole vocabulary as XGrammar describes it."""
        return self.vocabulary.tokenizer_info

    def compile_grammar(
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root"
    ) -> CompiledGrammar:
        """Compile an EBNF (GBNF) text, or a grammar that XGrammar has parsed."""
        if isinstance(grammar, xgrammar.Grammar):
            return self._compile(("grammar", grammar.serialize_json()), lambda: grammar)
        return self._compile(
            ("ebnf", grammar, root_rule_name),
            lambda: xgrammar.Grammar.from_ebnf(grammar, root_rule_name=root_rule_name),
        )

    def compile_json_schema(self, schema: Any, *, strict: bool = False, **options: Any) -> CompiledGrammar:
        """Compile a JSON schema (text, dict or pydantic model class).

        XGrammar enforces a part of JSON Schema; `CompiledGrammar.relaxed` is what it leaves out of this one.

        Args:
            schema: the schema.
            strict: refuse a schema of which XGrammar leaves something out.
            **options: those of `xgrammar.GrammarCompiler.compile_json_schema`: any_whitespace, indent,
                separators, strict_mode (properties and items that are not named are forbidden; not the same
                as `strict`), max_whitespace_cnt, any_order.

        Raises:
            GrammarError: XGrammar refuses the schema; or `strict`, and the message names the keywords.
        """
        if not isinstance(schema, (str, type)):
            try:
                schema = json.dumps(schema)
            except (TypeError, ValueError, RecursionError) as error:
                raise GrammarError(
                    f"the schema cannot be written as JSON ({error}); allowed are JSON text, what json.dumps "
                    "takes, and a pydantic model class"
                ) from error
        key = ("json_schema", schema, tuple(sorted((k, repr(v)) for k, v in options.items())))

        compiled = self._compile(key, lambda: xgrammar.Grammar.from_json_schema(schema, **options))
        if compiled.schema is None:  # neither compiling nor the folder on disk knows of it
            object.__setattr__(compiled, "schema", schema_text(schema, options))
        if strict and compiled.relaxed:
            raise GrammarError(describe(compiled.relaxed))
        return compiled

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compile XGrammar's grammar of all JSON."""
        return self._compile(("builtin_json",), xgrammar.Grammar.builtin_json_grammar)

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compile a regular expression in XGrammar's dialect."""
        return self._compile(("regex", regex), lambda: xgrammar.Grammar.from_regex(regex))

    def compile_structural_tag(self, structural_tag: Any, *arguments: Any) -> CompiledGrammar:
        """Compile a structural tag (object, dict or JSON text; or the older pair of tags and triggers)."""
        grammar = _parse(
            "structural tag", lambda: xgrammar.Grammar.from_structural_tag(structural_tag, *arguments)
        )
        # a tag may hold model classes, which only the grammar made of them tells apart
        return self.compile_grammar(grammar)

    def compile_lark(self, grammar: str, *, start: str = "start") -> CompiledGrammar:
        """Compile a grammar in Lark's notation, with Lark's own meaning: LALR(1), lexer="basic".

        (XGrammar's scannerless dialect of Lark is ``compile_grammar(xgrammar.Grammar.from_lark(text))``.)

        Args:
            grammar: the text.
            start: the start rule.

        Raises:
            GrammarError: Lark refuses the grammar; the message is Lark's.
            UnsupportedGrammar: a terminal or option whose meaning is not kept; the message names it.
            BudgetExceeded: more than the budget allows.
            StrategyError: the compiler's strategy is one of XGrammar's, which has no lexer.
        """
        if self.strategy not in ("auto", "classifier"):
            raise StrategyError(
                f"strategy is {self.strategy!r}, which runs in XGrammar and has no lexer; allowed for Lark "
                "grammars are 'auto' and 'classifier' (or compile_grammar(xgrammar.Grammar.from_lark(text)))"
            )
        return self._cached(("lark", grammar, start), lambda: self._on_lark(LarkGrammar(grammar, start)))

    def compile_many(
        self,
        grammars: Iterable[str | xgrammar.Grammar | Source | tuple[Any, ...]],
        n_jobs: int | None = None,
        *,
        on_error: Literal["raise", "return"] = "raise",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Any]:
        """Compile many grammars, in threads, or by the backend of the caller's `joblib.parallel_config`.

        Args:
            grammars: what `compile_grammar` takes, or tuples (kind, argument, options) as `Source` says:
                ``("json_schema", schema)``, ``("regex", text)``, ``("builtin_json",)`` ...
            n_jobs: threads or processes; -1 is one for each core, None what joblib is told, or 1.
            on_error: "raise" the first error with the item's number, or "return" errors among the grammars.
            progress: called with the number of grammars done, and of all, in order.

        Returns:
            The compiled grammars in order. Those compiled by other processes are not in the memory cache.

        Raises:
            HybridError: an item that is none, or the error of one.
        """
        return compile_all(self, grammars, n_jobs, on_error, progress)

    def compile_grammar_async(
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root"
    ) -> Future[CompiledGrammar]:
        """`compile_grammar` in one of the compiler's own `n_jobs` threads.

        Raises:
            HybridError: the compiler is closed. What the compilation raises, the future does.
        """
        return self._later(self.compile_grammar, grammar, root_rule_name=root_rule_name)

    def compile_json_schema_async(self, schema: Any, **options: Any) -> Future[CompiledGrammar]:
        """`compile_json_schema`, as `compile_grammar_async`."""
        return self._later(self.compile_json_schema, schema, **options)

    def compile_builtin_json_grammar_async(self) -> Future[CompiledGrammar]:
        """`compile_builtin_json_grammar`, as `compile_grammar_async`."""
        return self._later(self.compile_builtin_json_grammar)

    def compile_regex_async(self, regex: str) -> Future[CompiledGrammar]:
        """`compile_regex`, as `compile_grammar_async`."""
        return self._later(self.compile_regex, regex)

    def compile_structural_tag_async(self, structural_tag: Any, *arguments: Any) -> Future[CompiledGrammar]:
        """`compile_structural_tag`, as `compile_grammar_async`."""
        return self._later(self.compile_structural_tag, structural_tag, *arguments)

    def compile_lark_async(self, grammar: str, *, start: str = "start") -> Future[CompiledGrammar]:
        """`compile_lark`, as `compile_grammar_async`."""
        return self._later(self.compile_lark, grammar, start=start)

    def _later(
        self, compile_it: Callable[..., CompiledGrammar], *arguments: Any, **options: Any
    ) -> Future[CompiledGrammar]:
        with self._lock:
            if self._is_closed:
                raise HybridError("the compiler is closed; allowed are the methods that do not end in _async")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.n_jobs, "equimask-compiler")
            return self._pool.submit(compile_it, *arguments, **options)

    def close(self) -> None:
        """End the threads of the ``_async`` methods: what has not begun is cancelled, what has is waited for.

        Everything else can still be used. A compiler that nobody closes ends its threads when it is
        collected, and at the end of the program, once all that was asked for is compiled.
        """
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> GrammarCompiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def stats(self) -> dict[str, Any]:
        """What this compiler has done so far, in dicts, strings and numbers of the caller's own.

        Returns:
            "compilations": grammars compiled; "shared": calls that waited for an equal one under way;
            "memory" and "disk": "hits", "misses", "evictions", "bytes", "limit_bytes" (on disk also
            "writes", "damaged": entries that could not be used, and "failures" of the file system; its bytes
            are those of the last look at the folder, which others change too); "seconds" by phase, summed;
            "strategies": "count" and "reasons" with their counts, numbers and names left out; "errors" by
            type.
        """
        found = self._statistics.snapshot()
        with self._lock:
            found["memory"].update(bytes=self._cache_bytes, limit_bytes=self._cache_limit)
        disk = self._disk
        found["disk"].update(
            bytes=0 if disk is None else disk.size_bytes, limit_bytes=0 if disk is None else disk.limit_bytes
        )
        return found

    def clear_cache(self) -> None:
        """Forget all compiled grammars in memory, and those under way; those in use stay usable.

        What is on disk stays: delete the folder's files, whenever you like.
        """
        with self._lock:
            self._cache.clear()
            self._cache_bytes = 0
            self._generation += 1
            # who waits for these has them in hand already; later calls compile anew
            self._under_way = {}

    def get_cache_size_bytes(self) -> int:
        """Bytes of the compiled grammars kept."""
        return self._cache_bytes

    @property
    def cache_limit_bytes(self) -> int:
        """Bound of the memory cache."""
        return self._cache_limit

    def _compile(self, key: Any, parse: Callable[[], xgrammar.Grammar]) -> CompiledGrammar:
        def decided() -> CompiledGrammar:
            began = time.perf_counter()
            grammar = _parse(key[0].replace("_", " "), parse)
            return self._decide(grammar, time.perf_counter() - began)

        return self._cached(key, decided)

    def _cached(self, key: Any, compile_it: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        """From memory, from an equal call that is under way, from disk, or compiled, in this order."""
        if not self._cache_enabled:
            return self._obtained(key, compile_it)
        under_way: Future[CompiledGrammar] | None
        while True:
            with self._lock:
                known = self._cache.get(key)
                if known is not None:
                    self._cache.move_to_end(key)
                under_way = self._under_way.get(key)
                if known is None and under_way is None:
                    mine = self._under_way[key] = Future()
                    all_under_way, generation = self._under_way, self._generation
                    break
            if known is not None:
                self._statistics.count("memory_hits")
                return known[0]
            assert under_way is not None
            error = under_way.exception()
            if error is None:
                self._statistics.count("shared")
                return under_way.result()
            if isinstance(error, Exception):
                self._statistics.count("shared")
                raise error
            # its thread was interrupted, which says nothing of the grammar: perhaps this one has more luck
        self._statistics.count("memory_misses")
        try:
            compiled = self._obtained(key, compile_it)
            self._keep(key, compiled, generation)
        except BaseException as error:
            with self._lock:
                del all_under_way[key]
            mine.set_exception(error)
            raise
        else:
            with self._lock:
                del all_under_way[key]
            mine.set_result(compiled)
            return compiled
        finally:
            del mine  # the error has this frame in its traceback: they would keep each other alive

    def _obtained(self, key: Any, compile_it: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        """From disk, or compiled and written there; no lock is held."""
        began = time.perf_counter()
        disk = self._disk if self.strategy in ("auto", "classifier") else None
        entry = None if disk is None else disk.entry(key)
        if disk is not None and entry is not None and (found := disk.load(entry)) is not None:
            found.timings["total"] = time.perf_counter() - began
            self._statistics.loaded(found)
            self._log("loaded", key, found)
            return found
        try:
            compiled = compile_it()
        except Exception as error:
            self._statistics.failed(error)
            logger.debug("refused %s: %s", key[0], type(error).__name__)
            raise
        if disk is not None and entry is not None:
            stored = time.perf_counter()
            disk.keep(entry, compiled)
            compiled.timings["store"] = time.perf_counter() - stored
        compiled.timings["total"] = time.perf_counter() - began
        self._statistics.compiled(compiled)
        self._log("compiled", key, compiled)
        return compiled

    @staticmethod
    def _log(what: str, key: Any, compiled: CompiledGrammar) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            reason = " ".join(compiled.reason.split())
            milliseconds = 1000 * compiled.timings["total"]
            logger.debug("%s %s as %s in %.1f ms: %s", what, key[0], compiled.strategy, milliseconds, reason)

    def _keep(self, key: Any, compiled: CompiledGrammar, generation: int) -> None:
        size = compiled.memory_size_bytes
        evicted = 0
        with self._lock:
            # what was under way when the cache was cleared is not kept
            if size > self._cache_limit or key in self._cache or generation != self._generation:
                return
            self._cache[key] = compiled, size
            self._cache_bytes += size
            while self._cache_bytes > self._cache_limit:
                _, (_, dropped) = self._cache.popitem(last=False)
                self._cache_bytes -= dropped
                evicted += 1
        for _ in range(evicted):
            self._statistics.count("memory_evictions")

    def _decide(self, grammar: xgrammar.Grammar, parsing: float) -> CompiledGrammar:
        """What the strategy asks for or, by name, what else the grammar can be run on."""
        timings = {"parse": parsing}
        began = time.perf_counter()
        serialized = json.loads(grammar.serialize_json())
        try:
            check_version(serialized)
        except GrammarError as error:
            # nothing of another layout is read, not even to refuse what XGrammar's compiler does not survive
            if self.strategy == "representatives":
                raise
            return self._on_engine(grammar, grammar, f"no token classes: {error}", timings)
        refuse_endless_rules(serialized)
        features = find_features(serialized)
        refuse_unknown_ids(features, self.vocabulary)
        timings["serialize"] = time.perf_counter() - began
        if self.strategy in ("auto", "classifier"):
            return self._on_classifier(grammar, serialized, features, timings)
        changed = shield_root(serialized)
        if self.strategy == "engine":
            safe = _as_changed(grammar, serialized, changed)
            return self._on_engine(grammar, safe, "asked for by strategy='engine'", timings)
        return self._on_classes(grammar, serialized, changed, features, timings)

    def _on_lark(self, grammar: LarkGrammar) -> CompiledGrammar:
        """A classifier of a Lark grammar, or an error: no other strategy has its meaning."""
        self.on_phase("classes")
        built = build(grammar, self.vocabulary, self.budget)
        self.on_phase("summaries")
        began = time.perf_counter()
        classes = built.classes.tokens
        fixed = lark_tables(built.lexer, built.machine, built.classes, *self.vocabulary.flat)
        classifier = FactoredClassifier(fixed, classes, self.vocabulary, self.budget.table_bytes)
        timings = {**built.seconds, "classifier": time.perf_counter() - began}
        counts = f"{classes.n_classes} token classes stand for {self.vocabulary.size} ids"
        reason = f"a Lark grammar has no other; {counts}"
        return CompiledGrammar(
            "classifier",
            reason,
            self.vocabulary,
            grammar,
            None,
            -1,
            classes,
            None,
            None,
            classifier,
            None,
            timings,
        )

    def _on_classifier(
        self,
        grammar: xgrammar.Grammar,
        serialized: dict[str, Any],
        features: Features,
        timings: dict[str, float],
    ) -> CompiledGrammar:
        """A classifier, or by name what else the grammar can be run on."""
        try:
            self.on_phase("classes")
            refuse_beyond_stacks(features, serialized)
            classes, network = classes_and_network(
                serialized, self.vocabulary, "acceptance", self.budget.capacity, self.budget.states,
                self.budget.seconds,
            )  # fmt: skip
            began = time.perf_counter()
            self.on_phase("summaries")
            classifier, cause = self._build_classifier(network, classes)
        except (UnsupportedGrammar, BudgetExceeded) as error:
            cause = f"no classifier: {error}"
            changed = shield_root(serialized)
            return self._on_classes(grammar, serialized, changed, features, timings, cause)
        timings.update(classes.seconds)
        timings["classifier"] = time.perf_counter() - began
        reason = _reason(classes, self.vocabulary)
        if self.strategy == "classifier":
            reason = f"asked for; {reason}"
        if cause:
            reason += f"; built on demand: {cause}"

        def otherwise() -> CompiledGrammar:
            return without_classifier(grammar, self.vocabulary, self.budget, self.n_jobs)

        return CompiledGrammar(
            "classifier", reason, self.vocabulary, grammar, None, -1, classes, None, features, classifier,
            otherwise, timings,
        )  # fmt: skip

    def _build_classifier(self, network: Network, classes: TokenClasses) -> tuple[Classifier, str]:
        """The classifier, and why its states are not all built ahead of time (empty if they are)."""
        limit = self.budget.table_bytes
        texts, grouped = distinct_classes(classes, self.vocabulary)
        fixed = fixed_tables(network, texts, *self.vocabulary.flat)
        if self.on_demand or self.strategy == "auto":
            why = "asked for" if self.on_demand else "the first mask comes sooner"
            return Classifier(fixed, grouped, self.vocabulary, limit), why
        known, cause = build_summaries(
            fixed, network, limit=limit // 4, states=4 * self.budget.states, seconds=self.budget.seconds
        )
        if not cause:
            known = minimised(known)
        return Classifier(fixed, grouped, self.vocabulary, limit, known), cause

    def _on_classes(
        self,
        grammar: xgrammar.Grammar,
        serialized: dict[str, Any],
        changed: bool,
        features: Features,
        timings: dict[str, float],
        cause: str = "",
    ) -> CompiledGrammar:
        """Representatives, or by name the engine."""
        try:
            refuse_captured_representatives(features)
            classes = compute_classes(
                serialized, self.vocabulary, capacity=self.budget.capacity, max_states=self.budget.states,
                seconds=self.budget.seconds, on_budget="coarse",
            )  # fmt: skip
            refuse_missing_bytes(features, self.vocabulary, classes)
            if self.strategy != "representatives":
                _refuse_many(classes, self.vocabulary)
        except (UnsupportedGrammar, BudgetExceeded) as error:
            if self.strategy == "representatives":
                raise
            safe = _as_changed(grammar, serialized, changed)
            reason = f"no token classes: {error}" + (f"; {cause}" if cause else "")
            return self._on_engine(grammar, safe, reason, timings)
        timings.update(classes.seconds)
        changed = without_lookahead(serialized) or changed
        return self._on_representatives(grammar, serialized, changed, features, classes, timings, cause)

    def _on_engine(
        self, grammar: xgrammar.Grammar, safe: xgrammar.Grammar, reason: str, timings: dict[str, float]
    ) -> CompiledGrammar:
        with self._lock:
            if self._plain is None:
                self._plain = xgrammar.GrammarCompiler(
                    self.vocabulary.tokenizer_info, max_threads=self.n_jobs, cache_enabled=False
                )
        began = time.perf_counter()
        engine = _run(self._plain, safe)
        timings["compile"] = time.perf_counter() - began
        return CompiledGrammar("engine", reason, self.vocabulary, grammar, engine, timings=timings)

    def _on_representatives(
        self,
        grammar: xgrammar.Grammar,
        serialized: dict[str, Any],
        changed: bool,
        features: Features,
        classes: TokenClasses,
        timings: dict[str, float],
        cause: str,
    ) -> CompiledGrammar:
        began = time.perf_counter()
        gather = Gather(classes, self.vocabulary.size)
        gathered = time.perf_counter()
        tokens = [self.vocabulary.tokens[token_id] for token_id in classes.representatives.tolist()]
        tokens += prefix_closed(tokens)
        stop = len(tokens)
        last = [b""]
        if features.named:
            serialized, with_void = in_engine_ids(serialized, classes, stop + 1)
            changed = True
            last += [b""] * with_void
        safe = _as_changed(grammar, serialized, changed)
        info = xgrammar.TokenizerInfo(
            [*tokens, *last], xgrammar.VocabType.RAW, vocab_size=stop + len(last), stop_token_ids=[stop]
        )
        compiler = xgrammar.GrammarCompiler(info, max_threads=self.n_jobs, cache_enabled=False)
        engine = _run(compiler, safe)
        timings["gather"] = gathered - began
        reason = _reason(classes, self.vocabulary) + (f"; {cause}" if cause else "")
        timings["compile"] = time.perf_counter() - gathered
        return CompiledGrammar(
            "representatives", reason, self.vocabulary, grammar, engine,
            stop, classes, gather, features, timings=timings,
        )  # fmt: skip


def without_classifier(
    grammar: xgrammar.Grammar, vocabulary: Vocabulary, budget: Budget, n_jobs: int = 1
) -> CompiledGrammar:
    """A grammar on representatives or, by name, the engine: for matchers that outgrow a classifier."""
    compiler = GrammarCompiler(vocabulary, budget=budget, n_jobs=n_jobs, cache_enabled=False)
    serialized = json.loads(grammar.serialize_json())
    features = find_features(serialized)
    return compiler._on_classes(grammar, serialized, shield_root(serialized), features, {})


def _nothing(phase: str) -> None:
    """What is done at a phase where nobody asks."""


MANY_CLASSES = 256
"""Up to this number of classes representatives are taken whatever the vocabulary's size."""


def _refuse_many(classes: TokenClasses, vocabulary: Vocabulary) -> None:
    """Refuse classes that are hardly fewer than the tokens: they would cost more than they save."""
    text = vocabulary.size - len(vocabulary.special_token_ids)
    if classes.method != "explored" and classes.n_classes > max(text // 2, MANY_CLASSES):
        raise BudgetExceeded(
            f"{classes.cause}; {classes.n_classes} classes by {classes.method} for {text} tokens save nothing"
        )


def _reason(classes: TokenClasses, vocabulary: Vocabulary) -> str:
    if classes.method == "explored":
        return f"{classes.n_classes} token classes stand for {vocabulary.size} ids"
    return f"{classes.n_classes} classes by {classes.method} stand for {vocabulary.size} ids: {classes.cause}"


def _parse(kind: str, parse: Callable[[], xgrammar.Grammar]) -> xgrammar.Grammar:
    try:
        return parse()
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise GrammarError(f"XGrammar refuses the {kind}: {error}") from error


def _as_changed(grammar: xgrammar.Grammar, serialized: dict[str, Any], changed: bool) -> xgrammar.Grammar:
    """The grammar itself, or what its changed serialised form says."""
    return xgrammar.Grammar.deserialize_json(json.dumps(serialized)) if changed else grammar


def _run(compiler: xgrammar.GrammarCompiler, grammar: xgrammar.Grammar) -> xgrammar.CompiledGrammar:
    try:
        return compiler.compile_grammar(grammar)
    except RuntimeError as error:
        raise GrammarError(f"XGrammar cannot compile the grammar: {error}") from error
