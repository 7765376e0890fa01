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
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import xgrammar

from equivalence import (
    BudgetExceeded,
    GrammarError,
    HybridError,
    StrategyError,
    Vocabulary,
)
from equivalence.deadline import Deadline, free_frames
from hybrid.background import Background, CompileFuture
from hybrid.cache import DiskCache
from hybrid.compilation import Compilation
from hybrid.compiled import CompiledGrammar
from hybrid.factored import LarkGrammar
from hybrid.memory_cache import MemoryCache
from hybrid.parallel import Source, compile_all
from hybrid.relaxed import SchemaText, describe, schema_text
from hybrid.statistics import Statistics
from hybrid.strategy import Budget, OnBudget, check_on_budget, check_strategy

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
        on_budget: what to do where our own part of a compilation meets the budget: "engine" goes on with
            coarser classes, or the whole vocabulary, in XGrammar, by name; "raise" raises `BudgetExceeded`.
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
        on_budget: OnBudget = "engine",
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
        self.on_budget: OnBudget = check_on_budget(on_budget)
        self.n_jobs = threads
        self.on_demand = bool(on_demand)
        self._cache_enabled = cache_enabled
        self._statistics = Statistics()
        kept = DEFAULT_CACHE_BYTES if cache_limit_bytes < 0 else cache_limit_bytes
        self._memory = MemoryCache(kept, self._statistics.count)
        self._compilation = Compilation(
            vocabulary, self.strategy, budget, threads, self.on_demand, self.on_budget
        )
        self._disk: DiskCache | None = None
        if cache_dir is not None:
            settings = {
                "strategy": strategy, "on_demand": self.on_demand, "budget": repr(budget),
                "on_budget": self.on_budget,
            }  # fmt: skip
            self._disk = DiskCache(
                cache_dir, cache_dir_limit_bytes, vocabulary, budget, settings, self._statistics.count
            )
        self._background = Background(threads, self._compilation.begin)

    @property
    def on_phase(self) -> Callable[[str], None]:
        """Told the phase that begins, "classes" or "summaries", where a classifier is made."""
        return self._compilation.on_phase

    @on_phase.setter
    def on_phase(self, told: Callable[[str], None]) -> None:
        self._compilation.on_phase = told

    @property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """The whole vocabulary as XGrammar describes it."""
        return self.vocabulary.tokenizer_info

    def compile_grammar(
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root"
    ) -> CompiledGrammar:
        """Compile an EBNF (GBNF) text, or a grammar that XGrammar has parsed.

        Raises:
            GrammarError: XGrammar refuses the grammar.
            BudgetExceeded: the budget's seconds were used up; or it was met elsewhere, with
                ``on_budget="raise"``. So for all methods that compile.
        """
        return self._grammar(self._compilation.begin(), grammar, root_rule_name)

    def _grammar(
        self, deadline: Deadline, grammar: str | xgrammar.Grammar, root_rule_name: str = "root"
    ) -> CompiledGrammar:
        if isinstance(grammar, xgrammar.Grammar):
            return self._compile(deadline, ("grammar", grammar.serialize_json()), lambda: grammar)
        return self._compile(
            deadline,
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
        return self._json_schema(self._compilation.begin(), schema, strict, options)

    def _json_schema(
        self, deadline: Deadline, schema: Any, strict: bool, options: dict[str, Any]
    ) -> CompiledGrammar:
        if not isinstance(schema, (str, type)):
            try:
                schema = json.dumps(schema)
            except (TypeError, ValueError, RecursionError) as error:
                raise GrammarError(
                    f"the schema cannot be written as JSON ({error}); allowed are JSON text, what json.dumps "
                    "takes, and a pydantic model class"
                ) from error
        key = ("json_schema", schema, tuple(sorted((k, repr(v)) for k, v in options.items())))
        compiled = self._compile(
            deadline,
            key,
            lambda: xgrammar.Grammar.from_json_schema(schema, **options),
            lambda: schema_text(schema, options),
        )
        if strict:
            deadline.check("looking for keywords that XGrammar leaves out")
            if compiled.relaxed:
                raise GrammarError(describe(compiled.relaxed))
        return compiled

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compile XGrammar's grammar of all JSON."""
        return self._builtin_json_grammar(self._compilation.begin())

    def _builtin_json_grammar(self, deadline: Deadline) -> CompiledGrammar:
        return self._compile(deadline, ("builtin_json",), xgrammar.Grammar.builtin_json_grammar)

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compile a regular expression in XGrammar's dialect."""
        return self._regex(self._compilation.begin(), regex)

    def _regex(self, deadline: Deadline, regex: str) -> CompiledGrammar:
        return self._compile(deadline, ("regex", regex), lambda: xgrammar.Grammar.from_regex(regex))

    def compile_structural_tag(self, structural_tag: Any, *arguments: Any) -> CompiledGrammar:
        """Compile a structural tag (object, dict or JSON text; or the older pair of tags and triggers)."""
        return self._structural_tag(self._compilation.begin(), structural_tag, *arguments)

    def _structural_tag(self, deadline: Deadline, structural_tag: Any, *arguments: Any) -> CompiledGrammar:
        grammar, _ = self._compilation.parse(
            "structural tag",
            lambda: xgrammar.Grammar.from_structural_tag(structural_tag, *arguments),
            deadline,
        )
        # a tag may hold model classes, which only the grammar made of them tells apart
        return self._grammar(deadline, grammar)

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
        return self._lark(self._compilation.begin(), grammar, start)

    def _lark(self, deadline: Deadline, grammar: str, start: str) -> CompiledGrammar:
        if self.strategy not in ("auto", "classifier"):
            raise StrategyError(
                f"strategy is {self.strategy!r}, which runs in XGrammar and has no lexer; allowed for Lark "
                "grammars are 'auto' and 'classifier' (or compile_grammar(xgrammar.Grammar.from_lark(text)))"
            )
        return self._cached(
            deadline,
            ("lark", grammar, start),
            lambda deadline: self._compilation.on_lark(LarkGrammar(grammar, start), deadline),
        )

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
    ) -> CompileFuture:
        """`compile_grammar` in one of the compiler's own `n_jobs` threads.

        Returns:
            A `concurrent.futures.Future` which can also be cancelled while it runs. The budget's seconds
            begin when a thread takes it up.

        Raises:
            HybridError: the compiler is closed. What the compilation raises, the future does.
        """
        return self._background.submit(lambda deadline: self._grammar(deadline, grammar, root_rule_name))

    def compile_json_schema_async(
        self, schema: Any, *, strict: bool = False, **options: Any
    ) -> CompileFuture:
        """`compile_json_schema`, as `compile_grammar_async`."""
        return self._background.submit(lambda deadline: self._json_schema(deadline, schema, strict, options))

    def compile_builtin_json_grammar_async(self) -> CompileFuture:
        """`compile_builtin_json_grammar`, as `compile_grammar_async`."""
        return self._background.submit(self._builtin_json_grammar)

    def compile_regex_async(self, regex: str) -> CompileFuture:
        """`compile_regex`, as `compile_grammar_async`."""
        return self._background.submit(lambda deadline: self._regex(deadline, regex))

    def compile_structural_tag_async(self, structural_tag: Any, *arguments: Any) -> CompileFuture:
        """`compile_structural_tag`, as `compile_grammar_async`."""
        return self._background.submit(
            lambda deadline: self._structural_tag(deadline, structural_tag, *arguments)
        )

    def compile_lark_async(self, grammar: str, *, start: str = "start") -> CompileFuture:
        """`compile_lark`, as `compile_grammar_async`."""
        return self._background.submit(lambda deadline: self._lark(deadline, grammar, start))

    def close(self) -> None:
        """End the threads of the ``_async`` methods: what has not begun is cancelled, what has is waited for.

        Everything else can still be used. A compiler that nobody closes ends its threads when it is
        collected, and at the end of the program, once all that was asked for is compiled.
        """
        self._background.close()

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
            "overdue" and "cancelled": compilations that were given up because their seconds were used up, or
            because nobody wanted them any more;
            "memory" and "disk": "hits", "misses", "evictions", "bytes", "limit_bytes" (on disk also
            "writes", "damaged": entries that could not be used, and "failures" of the file system; its bytes
            are those of the last look at the folder, which others change too); "seconds" by phase, summed;
            "strategies": "count" and "reasons" with their counts, numbers and names left out; "errors" by
            type.
        """
        found = self._statistics.snapshot()
        found["memory"].update(bytes=self._memory.size_bytes, limit_bytes=self._memory.limit_bytes)
        disk = self._disk
        found["disk"].update(
            bytes=0 if disk is None else disk.size_bytes, limit_bytes=0 if disk is None else disk.limit_bytes
        )
        return found

    def clear_cache(self) -> None:
        """Forget all compiled grammars in memory, and those under way; those in use stay usable.

        What is on disk stays: delete the folder's files, whenever you like.
        """
        self._memory.clear()

    def get_cache_size_bytes(self) -> int:
        """Bytes of the compiled grammars kept."""
        return self._memory.size_bytes

    @property
    def cache_limit_bytes(self) -> int:
        """Bound of the memory cache."""
        return self._memory.limit_bytes

    def _compile(
        self,
        deadline: Deadline,
        key: Any,
        parse: Callable[[], xgrammar.Grammar],
        read_schema: Callable[[], SchemaText] | None = None,
    ) -> CompiledGrammar:
        def decided(deadline: Deadline) -> CompiledGrammar:
            grammar, seconds = self._compilation.parse(key[0].replace("_", " "), parse, deadline)
            compiled = self._compilation.decide(grammar, seconds, deadline)
            # before anybody else sees it: the folder on disk keeps the schema too
            return compiled if read_schema is None else replace(compiled, schema=read_schema())

        return self._cached(deadline, key, decided)

    def _cached(
        self, deadline: Deadline, key: Any, compile_it: Callable[[Deadline], CompiledGrammar]
    ) -> CompiledGrammar:
        """From memory, from an equal call that is under way, from disk, or compiled, in this order."""
        if not self._cache_enabled:
            return self._obtained(deadline, key, compile_it)
        return self._memory.get(key, lambda mine: self._obtained(mine, key, compile_it), deadline)

    def _obtained(
        self, deadline: Deadline, key: Any, compile_it: Callable[[Deadline], CompiledGrammar]
    ) -> CompiledGrammar:
        """From disk, or compiled and written there; no lock is held."""
        began = time.perf_counter()
        try:
            deadline.check("waiting to begin")
            disk = self._disk if self.strategy in ("auto", "classifier") else None
            entry = None if disk is None else disk.entry(key)
            if disk is not None and entry is not None and (found := disk.load(entry)) is not None:
                found.timings["total"] = time.perf_counter() - began
                self._statistics.loaded(found)
                self._log("loaded", key, found)
                return found
            compiled = compile_it(deadline)
        except Exception as error:
            self._statistics.failed(error)
            if isinstance(error, BudgetExceeded):
                if deadline.is_over:
                    self._statistics.count("cancelled" if deadline.is_cancelled else "overdue")
                free_frames(error)
            logger.debug("refused %s: %s", key[0], type(error).__name__)
            raise
        if disk is not None and entry is not None and not deadline.is_over:
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
