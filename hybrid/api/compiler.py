"""The compiler: a grammar in, a `CompiledGrammar` on the best strategy out.

What: XGrammar's `GrammarCompiler`, with its methods and options; the grammar is parsed by XGrammar, its token
classes are computed, and a classifier is made of them, or XGrammar compiles it over one representative per
class. Lark grammars are parsed by Lark.
When: one per vocabulary; thread-safe.
Limits: equal calls are served from a bounded memory cache, and those that come while the first is under way
wait for it; a folder keeps compiled grammars for other processes where one is given (docs/caches.md).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NoReturn

import xgrammar

from equivalence import ArgumentError, HybridError, Vocabulary
from equivalence.arguments import flag, integer_from
from equivalence.weak_methods import WeakMethods
from hybrid.api.compiled import CompiledGrammar
from hybrid.api.statistics import OF_PROCESS, Statistics
from hybrid.compile.background import Background, CompileFuture
from hybrid.compile.cache import DiskCache
from hybrid.compile.compilation import Compilation
from hybrid.compile.memory_cache import MemoryCache, shared_cache
from hybrid.compile.parallel import MOST_JOBS, Source, compile_all
from hybrid.compile.pipeline import Pipeline
from hybrid.compile.promotion import Promoter
from hybrid.compile.request import (
    BuiltinJsonRequest,
    EbnfRequest,
    ExactSchemaRequest,
    GrammarRequest,
    JsonSchemaRequest,
    LarkRequest,
    RegexRequest,
    Request,
    Settings,
    StructuralTagRequest,
)
from hybrid.compile.strategy import (
    Budget,
    OnBudget,
    check_budget,
    check_on_budget,
    check_semantics,
    check_strategy,
)
from hybrid.json_schema import MOST_WHITE_SPACE, load_referencing
from hybrid.xgrammar.guard import Guard

DEFAULT_CACHE_BYTES = 512 * 2**20

NO_BOUND = -1
"""`max_whitespace_cnt` of as much white space as a model likes."""

logger = logging.getLogger("hybrid")

_alive = WeakMethods()  # `GrammarCompiler._caches` of each


def bytes_held() -> dict[str, int]:
    """Bytes of compiled grammars that the compilers of this process keep: "memory", its bound
    "memory_limit", and "disk", of all folders at the last look at them."""
    caches: list[Any] = [call() for call in _alive.alive()]
    memories = {id(memory): memory for memory, _ in caches}
    folders: dict[Any, int] = {}
    for _, disk in caches:
        if disk is not None:  # who has written to a folder knows more than who has looked at it
            folders[disk.folder] = max(disk.size_bytes, folders.get(disk.folder, 0))
    return {
        "memory": sum(memory.size_bytes for memory in memories.values()),
        "memory_limit": sum(memory.limit_bytes for memory in memories.values()),
        "disk": sum(folders.values()),
    }


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
        n_jobs: threads of XGrammar's own compilation, and of the methods that end in ``_async``; at most
            1,024.
        max_threads: XGrammar's name for `n_jobs`.
        cache_enabled: keep compiled grammars in memory and return the same object for an equal call.
        cache_limit_bytes: bound of that memory (least recently used out first); -1 is 512 MiB. Compilers of
            one vocabulary that give the same bound share it, and find what the others compiled if all their
            other arguments are the same too.
        on_demand: let a classifier find its states when a text first asks for them, in place of all of them
            ahead of time: compiles faster, and the first texts are slower.
        deterministic: take the same decisions in every process that makes the same calls: the budget's
            seconds count as None, nothing is promoted in the background, and walks kept from other grammars
            are not used (docs/strategies.md).
        semantics: what JSON schemas mean where a call does not say: "xgrammar" (what XGrammar's converter
            makes of them) or "json-schema" (what they say; docs/json-schema.md).
        max_whitespace_cnt: characters that a run of white space between the parts of a JSON text may have,
            where a call for a schema does not say; -1 is no bound. None: 128 with
            ``semantics="json-schema"``, no bound with "xgrammar".
        assert_formats: whether `format` is an assertion with ``semantics="json-schema"``, where a call does
            not say; else it is an annotation.

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
        deterministic: bool = False,
        semantics: str = "xgrammar",
        max_whitespace_cnt: int | None = None,
        assert_formats: bool = True,
    ) -> None:
        if isinstance(vocabulary, xgrammar.TokenizerInfo):
            vocabulary = Vocabulary.from_tokenizer_info(vocabulary)
        if not isinstance(vocabulary, Vocabulary):
            raise HybridError(
                f"vocabulary is {type(vocabulary).__name__}, allowed are hybrid.Vocabulary and "
                "xgrammar.TokenizerInfo; see Vocabulary.from_huggingface"
            )
        threads = integer_from(1, n_jobs if max_threads is None else max_threads, "n_jobs", most=MOST_JOBS)
        cache_limit_bytes = integer_from(-1, cache_limit_bytes, "cache_limit_bytes")
        cache_enabled = flag(cache_enabled, "cache_enabled")
        seconds = check_budget(budget).seconds
        self.deterministic = flag(deterministic, "deterministic")
        if self.deterministic:
            budget = replace(budget, seconds=None)  # so that nobody who has it looks at a clock
        self.vocabulary = vocabulary
        self.strategy = check_strategy(strategy)
        self.budget = budget
        self.on_budget: OnBudget = check_on_budget(on_budget)
        self.n_jobs = threads
        self.on_demand = flag(on_demand, "on_demand")
        self.semantics = check_semantics(semantics)
        self.assert_formats = flag(assert_formats, "assert_formats")
        if self.semantics == "json-schema":
            load_referencing()
        if max_whitespace_cnt is not None:
            max_whitespace_cnt = integer_from(-1, max_whitespace_cnt, "max_whitespace_cnt")
        self.max_whitespace_cnt = max_whitespace_cnt
        settings = Settings(
            strategy, budget, threads, self.on_demand, self.on_budget, self.deterministic, seconds
        )
        self._statistics = Statistics(OF_PROCESS)
        kept = DEFAULT_CACHE_BYTES if cache_limit_bytes < 0 else cache_limit_bytes
        self._memory = shared_cache(vocabulary, kept)
        self._disk: DiskCache | None = None
        if cache_dir is not None:
            self._disk = DiskCache(
                cache_dir, cache_dir_limit_bytes, vocabulary, budget, settings.portable,
                self._statistics.count,
            )  # fmt: skip
            settings = replace(settings, cache_dir=os.fspath(self._disk.folder))
        self._settings = settings
        guard = Guard(budget, refuse_over=seconds if self.deterministic else None)
        guard.start()
        self._compilation = Compilation(vocabulary, settings, guard)
        self._promoter = Promoter(budget, self.deterministic, self._statistics.count, self._disk)
        self._pipeline = Pipeline(
            self._compilation,
            self._memory if cache_enabled else None,
            self._disk if strategy in ("auto", "classifier") else None,
            self._promoter,
            self._statistics,
        )
        self._background = Background(threads, self._compilation.begin, self._pipeline.run)
        _alive.add(self._caches)

    def _caches(self) -> tuple[MemoryCache, DiskCache | None]:
        return self._memory, self._disk

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
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root", static: bool = False
    ) -> CompiledGrammar:
        """Compile an EBNF (GBNF) text, or a grammar that XGrammar has parsed.

        Args:
            grammar: the text or the grammar.
            root_rule_name: the rule to begin with.
            static: the grammar is for long use: find all states of its classifier before returning, in place
                of on demand. So for all methods that compile and have it.

        Raises:
            GrammarError: XGrammar refuses the grammar.
            BudgetExceeded: the budget's seconds were used up; or it was met elsewhere, with
                ``on_budget="raise"``. So for all methods that compile.
        """
        return self._now(self._grammar(grammar, root_rule_name, static))

    def compile_json_schema(
        self,
        schema: Any,
        *,
        strict: bool = False,
        static: bool = False,
        semantics: str | None = None,
        relax: bool = False,
        assert_formats: bool | None = None,
        registry: Any = None,
        **options: Any,
    ) -> CompiledGrammar:
        """Compile a JSON schema (text, dict or pydantic model class).

        XGrammar enforces a part of JSON Schema; `CompiledGrammar.relaxed` is what it leaves out of this one.
        With ``semantics="json-schema"`` exactly the valid instances can be written, in the order in which the
        schema declares their keys (docs/json-schema.md).

        Args:
            schema: the schema.
            strict: refuse a schema of which something is left out.
            static: as `compile_grammar` has it.
            semantics: "xgrammar" or "json-schema"; None: the compiler's.
            relax: with "json-schema", leave out by name what cannot be kept, in place of refusing the schema.
            assert_formats: with "json-schema", whether `format` is an assertion; False: an annotation, as
                2019-09 and 2020-12 have it. None: the compiler's.
            registry: with "json-schema", a `referencing.Registry` with the documents and metaschemas that the
                schema refers to. Nothing is fetched, even if the registry could.
            **options: those of `xgrammar.GrammarCompiler.compile_json_schema`: any_whitespace, indent,
                separators, strict_mode (properties and items that are not named are forbidden; not the same
                as `strict`), max_whitespace_cnt (-1: no bound; None: the compiler's), any_order.

        Raises:
            GrammarError: XGrammar refuses the schema; or `strict`, and the message names the keywords.
            SchemaRefused: with "json-schema", the schema is invalid, satisfied by nothing, or needs what is
                not there; the message names keyword and place. (A `GrammarError`.)
        """
        own = (relax, assert_formats, registry)
        return self._now(self._schema(schema, strict, static, semantics, own, options))

    def compile_builtin_json_grammar(self, *, static: bool = False) -> CompiledGrammar:
        """Compile XGrammar's grammar of all JSON."""
        return self._now(BuiltinJsonRequest(settings=self._settings, static=static))

    def compile_regex(self, regex: str, *, static: bool = False) -> CompiledGrammar:
        """Compile a regular expression in XGrammar's dialect."""
        return self._now(RegexRequest(regex, settings=self._settings, static=static))

    def compile_structural_tag(
        self, structural_tag: Any, *arguments: Any, static: bool = False
    ) -> CompiledGrammar:
        """Compile a structural tag (object, dict or JSON text; or the older pair of tags and triggers)."""
        return self._now(self._tag(structural_tag, *arguments, static=static))

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
        return self._now(LarkRequest(grammar, start, settings=self._settings))

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
            n_jobs: threads or processes, at most 1,024; -1 is one for each core, -2 one less, None what
                joblib is told, or 1.
            on_error: "raise" the first error with the item's number, or "return" errors among the grammars.
            progress: called with the number of grammars done, and of all, in order.

        Returns:
            The compiled grammars in order. Those compiled by other processes are not in the memory cache.

        Raises:
            HybridError: an item that is none, or the error of one.
        """
        return compile_all(self, grammars, n_jobs, on_error, progress)

    def compile_grammar_async(
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root", static: bool = False
    ) -> CompileFuture:
        """`compile_grammar` in one of the compiler's own `n_jobs` threads.

        Returns:
            A `concurrent.futures.Future` which can also be cancelled while it runs. The budget's seconds
            begin when a thread takes it up.

        Raises:
            HybridError: the compiler is closed. What the compilation raises, the future does.
        """
        return self._background.submit(self._grammar(grammar, root_rule_name, static))

    def compile_json_schema_async(
        self,
        schema: Any,
        *,
        strict: bool = False,
        static: bool = False,
        semantics: str | None = None,
        relax: bool = False,
        assert_formats: bool | None = None,
        registry: Any = None,
        **options: Any,
    ) -> CompileFuture:
        """`compile_json_schema`, as `compile_grammar_async`."""
        own = (relax, assert_formats, registry)
        return self._background.submit(self._schema(schema, strict, static, semantics, own, options))

    def compile_builtin_json_grammar_async(self, *, static: bool = False) -> CompileFuture:
        """`compile_builtin_json_grammar`, as `compile_grammar_async`."""
        return self._background.submit(BuiltinJsonRequest(settings=self._settings, static=static))

    def compile_regex_async(self, regex: str, *, static: bool = False) -> CompileFuture:
        """`compile_regex`, as `compile_grammar_async`."""
        return self._background.submit(RegexRequest(regex, settings=self._settings, static=static))

    def compile_structural_tag_async(
        self, structural_tag: Any, *arguments: Any, static: bool = False
    ) -> CompileFuture:
        """`compile_structural_tag`, as `compile_grammar_async`."""
        return self._background.submit(self._tag(structural_tag, *arguments, static=static))

    def compile_lark_async(self, grammar: str, *, start: str = "start") -> CompileFuture:
        """`compile_lark`, as `compile_grammar_async`."""
        return self._background.submit(LarkRequest(grammar, start, settings=self._settings))

    def _now(self, request: Request) -> CompiledGrammar:
        return self._pipeline.run(request, self._compilation.begin())

    def _grammar(self, grammar: str | xgrammar.Grammar, root_rule_name: str, static: bool) -> Request:
        if isinstance(grammar, xgrammar.Grammar):
            return GrammarRequest(grammar, settings=self._settings, static=static)
        return EbnfRequest(grammar, root_rule_name, settings=self._settings, static=static)

    def _schema(
        self, schema: Any, strict: bool, static: bool, semantics: str | None,
        own: tuple[bool, bool | None, Any], options: Any,
    ) -> Request:  # fmt: skip
        """What a call for a schema asks for; `own` is what JSON Schema's own meaning alone has."""
        semantics = self.semantics if semantics is None else check_semantics(semantics)
        options = self._with_white_space(options, semantics)
        if semantics == "json-schema":
            relax, formats, registry = own
            formats = self.assert_formats if formats is None else formats
            return ExactSchemaRequest(
                schema, options, strict, relax, formats, registry, settings=self._settings, static=static
            )
        relax, formats, registry = own
        if relax:
            raise HybridError(
                "relax=True was given, which semantics='xgrammar' does not have: XGrammar always leaves out "
                "what it does not know (CompiledGrammar.relaxed)"
            )
        if formats is not None or registry is not None:
            name = "registry" if formats is None else "assert_formats"
            raise HybridError(
                f"{name} was given, which semantics='xgrammar' does not have; pass semantics='json-schema' "
                f"too, or leave {name} away"
            )
        return JsonSchemaRequest(schema, options, strict, settings=self._settings, static=static)

    def _with_white_space(self, options: dict[str, Any], semantics: str) -> dict[str, Any]:
        """The options of a schema with a bound on white space, where the call does not say it."""
        most = options.get("max_whitespace_cnt")
        if most is None:
            most = self.max_whitespace_cnt
        if most is None:
            most = MOST_WHITE_SPACE if semantics == "json-schema" else NO_BOUND
        if most == NO_BOUND:
            return {name: value for name, value in options.items() if name != "max_whitespace_cnt"}
        return {**options, "max_whitespace_cnt": most}

    def _tag(self, *arguments: Any, static: bool) -> Request:
        return StructuralTagRequest(arguments, settings=self._settings, static=static)

    def close(self) -> None:
        """End all threads: what ``_async`` methods have not begun is cancelled, what they have is waited for.

        Everything else can still be used. A compiler that nobody closes ends its threads when it is
        collected, and at the end of the program, where what has no result yet is cancelled. Where the
        vocabulary has a folder, the walks that it keeps are written there (`Vocabulary.save_walks`).
        """
        self._background.close()
        self._promoter.close()
        self._compilation.guard.close()
        self.vocabulary.save_walks()

    def settle(self) -> None:
        """Wait until nothing is left to be promoted in the background: for tests and measurements."""
        self._promoter.wait()

    def __enter__(self) -> GrammarCompiler:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a GrammarCompiler cannot be copied or pickled: several threads may share one, another process "
            "makes its own, and with cache_dir they share what is compiled"
        )

    def stats(self) -> dict[str, Any]:
        """What this compiler has done so far, in dicts, strings and numbers of the caller's own.

        Returns:
            "compilations": grammars compiled; "shared": calls that waited for an equal one under way;
            "promotions": "done", "given_up" for the budget, and "dropped" as nobody used them any more;
            "overdue" and "cancelled": compilations that were given up because their seconds were used up, or
            because nobody wanted them any more;
            "memory" and "disk": "hits", "misses", "evictions", "bytes", "limit_bytes" (on disk also
            "writes", "damaged": entries that could not be used, "failures" of the file system, and of those
            that were missed "shared": another process wrote them meanwhile, and "overdue": it was waited for
            in vain; its bytes are those of the last look at the folder, which others change too); "seconds"
            by phase, summed;
            "strategies": "count" and "reasons" with their counts, numbers and names left out; "errors" by
            type; "compile_seconds" and "first_mask_seconds" by strategy and meaning of schemas: their "sum",
            and "counts" of how many took at most so long (`hybrid.api.durations.BOUNDS`); "refusals" and
            "relaxations": schemas that were refused for a keyword, or compiled without it, in JSON Schema's
            meaning.
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

        So for all compilers that share this memory.

        What is on disk stays: delete the folder's files, whenever you like.
        """
        self._memory.clear()

    def get_cache_size_bytes(self) -> int:
        """Bytes of the compiled grammars kept, by all compilers that share this memory, counted now.

        They change where grammars are used for texts that were not read yet.
        """
        return self._memory.counted()

    @property
    def cache_limit_bytes(self) -> int:
        """Bound of the memory cache."""
        return self._memory.limit_bytes
