"""The compiler: turns a grammar into a `CompiledGrammar` on the best strategy.

What: `GrammarCompiler`, with the methods and options of XGrammar's. XGrammar parses the grammar (Lark parses
Lark grammars). Then a classifier is built from it, or XGrammar compiles it for one representative of each
token class.
When: one per vocabulary; thread-safe.
Limits: a memory cache of bounded size answers repeated calls, and a call waits for an equal one that is
running. Given a folder, compiled grammars are kept there for other processes (docs/caches.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, NoReturn, get_args

import xgrammar

from equivalence import ArgumentError, HybridError, StrategyError, Vocabulary
from equivalence.arguments import flag, integer_from
from hybrid.api.parallel import MOST_JOBS, Source, compile_all
from hybrid.compile import bytes_held
from hybrid.compile.background import Background, CompileFuture
from hybrid.compile.cache import DiskCache
from hybrid.compile.compilation import Compilation
from hybrid.compile.lark_dialect_request import LarkDialectRequest
from hybrid.compile.memory_cache import MemoryCache, shared_cache
from hybrid.compile.pipeline import Pipeline
from hybrid.compile.request import (
    BuiltinJsonRequest,
    EbnfRequest,
    GrammarRequest,
    LarkRequest,
    RegexRequest,
    Request,
)
from hybrid.compile.schema_request import ExactSchemaRequest, JsonSchemaRequest
from hybrid.compile.settings import Settings
from hybrid.compile.statistics import OF_PROCESS, Statistics
from hybrid.compile.tag_request import ExactTagRequest, StructuralTagRequest
from hybrid.compiled import CompiledGrammar
from hybrid.guard import Guard
from hybrid.json_schema import MOST_WHITE_SPACE, load_referencing, make_common
from hybrid.values.arguments import one_of
from hybrid.values.budget import SEMANTICS, STRATEGIES, Budget, OnBudget, check_budget

DEFAULT_CACHE_BYTES = 512 * 2**20

NO_BOUND = -1
"""The value of `max_whitespace_cnt` that allows white space of any length."""


class GrammarCompiler:
    """Compiles grammars for one vocabulary.

    Args:
        vocabulary: a `Vocabulary`, or an `xgrammar.TokenizerInfo`.
        strategy: how to compute masks (docs/strategies.md). "auto": a classifier that computes its states
            during use; if that is impossible, representatives; if there are no token classes, the engine.
            "classifier": a classifier that is complete before it is used; if that is impossible, as "auto".
            "representatives": representatives, or an error. "engine": plain XGrammar.
            `CompiledGrammar.reason` says what was chosen.
        cache_dir: a folder in which grammars with token classes are kept for other processes: those that are
            compiled with ``static=True``, ``on_demand=True`` or strategy "classifier", or from Lark's
            notation. It is created if it is missing (docs/caches.md). None keeps nothing on disk.
        cache_dir_limit_bytes: the size limit of that folder; the least recently used grammars are deleted
            first. -1 means 1 GiB.
        budget: limits of one compilation.
        on_budget: what to do if our own part of a compilation exceeds the budget. "engine": let XGrammar run
            the grammar over the whole vocabulary, and say so in `reason`. "raise": raise
            `BudgetExceeded`.
        n_jobs: number of threads of XGrammar's compiler, and of the methods that end in ``_async``; at most
            1,024.
        max_threads: XGrammar's name for `n_jobs`.
        cache_enabled: keep compiled grammars in memory, and return the same object for an equal call.
        cache_limit_bytes: the limit of that memory; the least recently used grammars are dropped first. -1
            means 512 MiB. Compilers of one vocabulary with the same limit share the memory. They share
            compiled grammars if all their other arguments are equal, too.
        on_demand: compute the token classes of each grammar at once, but each state of its classifier when a
            text first needs it. With strategy "classifier", compiling is then faster, and the first texts
            are slower. With "auto", compiling is slower, because otherwise classes are not computed at all.
        deterministic: make the same decisions in every process that makes the same calls. No clock decides:
            a grammar is refused if XGrammar is estimated to need more than the budget's seconds
            (docs/strategies.md).
        semantics: what a JSON schema means, unless a call says otherwise: "xgrammar" (as XGrammar reads it)
            or "json-schema" (as the specification says; docs/json-schema.md).
        max_whitespace_cnt: how many characters of white space may stand between two parts of a JSON text,
            unless a call says otherwise; -1 means any number. None means 256 with
            ``semantics="json-schema"``, and any number with "xgrammar".
        assert_formats: with ``semantics="json-schema"``, whether `format` is checked, unless a call says
            otherwise. If not, it is an annotation.

    Raises:
        StrategyError, HybridError: an argument is not allowed; the message says what is.

    Examples:
        >>> from hybrid import GrammarCompiler, Vocabulary
        >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b"</s>"], stop_token_ids=[3])
        >>> compiler = GrammarCompiler(vocabulary)
        >>> compiled = compiler.compile_grammar('root ::= "a" root "b" | "ab"')
        >>> compiled.strategy
        'classifier'
        >>> compiler.compile_grammar('root ::= "a" root "b" | "ab"') is compiled  # from the memory cache
        True
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
                "vocabulary must be a hybrid.Vocabulary or an xgrammar.TokenizerInfo, but is of type "
                f"{type(vocabulary).__name__}; see Vocabulary.from_huggingface"
            )
        threads = integer_from(1, n_jobs if max_threads is None else max_threads, "n_jobs", most=MOST_JOBS)
        cache_limit_bytes = integer_from(-1, cache_limit_bytes, "cache_limit_bytes")
        cache_enabled = flag(cache_enabled, "cache_enabled")
        seconds = check_budget(budget).seconds
        self.deterministic = flag(deterministic, "deterministic")
        if self.deterministic:
            budget = replace(budget, seconds=None)  # so that no decision depends on a clock
        self.vocabulary = vocabulary
        self.strategy = one_of(STRATEGIES, strategy, "strategy", StrategyError)
        self.budget = budget
        self.on_budget: OnBudget = one_of(get_args(OnBudget), on_budget, "on_budget", HybridError)
        self.n_jobs = threads
        self.on_demand = flag(on_demand, "on_demand")
        self.semantics = one_of(SEMANTICS, semantics, "semantics", HybridError)
        self.assert_formats = flag(assert_formats, "assert_formats")
        if self.semantics == "json-schema":
            load_referencing()
            make_common()
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
        self._pipeline = Pipeline(
            self._compilation,
            self._memory if cache_enabled else None,
            self._disk if strategy in ("auto", "classifier") else None,
            self._statistics,
        )
        self._background = Background(threads, self._compilation.begin, self._pipeline.run)
        bytes_held.add(self._caches)

    def _caches(self) -> tuple[MemoryCache, DiskCache | None]:
        return self._memory, self._disk

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
            root_rule_name: the rule to start with.
            static: compute all states of the classifier before returning, because the grammar will be used
                for a long time. All compile methods except those for Lark have this argument.

        Raises:
            GrammarError: XGrammar refuses the grammar.
            BudgetExceeded: the time limit was reached; or another limit, with ``on_budget="raise"``. All
                compile methods may raise it.
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

        XGrammar enforces only a part of JSON Schema; `CompiledGrammar.relaxed` lists what it leaves out of
        this schema. With ``semantics="json-schema"`` the model can write exactly the valid instances, with
        keys in the order in which the schema declares them (docs/json-schema.md).

        Args:
            schema: the schema.
            strict: refuse the schema if something would be left out of it.
            static: as in `compile_grammar`.
            semantics: "xgrammar" or "json-schema"; None is the compiler's.
            relax: with "json-schema", leave out what is not supported, and list it in `relaxed`, instead of
                refusing the schema.
            assert_formats: with "json-schema", whether `format` is checked. If False, it is an annotation, as
                drafts 2019-09 and 2020-12 define it. None is the compiler's.
            registry: with "json-schema", a `referencing.Registry` with the documents and metaschemas that the
                schema refers to. Nothing is fetched, even if the registry could do so.
            **options: the options of `xgrammar.GrammarCompiler.compile_json_schema`: any_whitespace, indent,
                separators, strict_mode (forbids undeclared properties and items; unrelated to `strict`),
                max_whitespace_cnt (-1 means any number, None the compiler's), any_order.

        Raises:
            ArgumentError: an argument or option has a wrong type.
            GrammarError: XGrammar refuses the schema; or `strict` does, and the message names the keywords.
            SchemaRefused: with "json-schema", the schema is invalid, has no valid instance, or uses something
                unsupported. The message names keyword and place. It is a `GrammarError`.
        """
        return self._now(
            self._schema(schema, strict, static, semantics, relax, assert_formats, registry, **options)
        )

    def compile_builtin_json_grammar(self, *, static: bool = False) -> CompiledGrammar:
        """Compile XGrammar's built-in grammar of JSON."""
        return self._now(BuiltinJsonRequest(settings=self._settings, static=static))

    def compile_regex(self, regex: str, *, static: bool = False) -> CompiledGrammar:
        """Compile a regular expression in XGrammar's dialect."""
        return self._now(RegexRequest(regex, settings=self._settings, static=static))

    def compile_structural_tag(
        self, structural_tag: Any, *arguments: Any, static: bool = False, semantics: str | None = None
    ) -> CompiledGrammar:
        """Compile a structural tag: an object, dict or JSON text, or the older pair of tags and triggers.

        Args:
            structural_tag: the tag; in the older form, the list of tags.
            *arguments: in the older form, the triggers.
            static: as in `compile_grammar`.
            semantics: the meaning of its JSON schemas, "xgrammar" or "json-schema" (docs/json-schema.md);
                None is the compiler's.

        Raises:
            GrammarError: XGrammar refuses the tag.
            SchemaRefused: with "json-schema", one of its schemas cannot be compiled exactly.
        """
        return self._now(self._tag((structural_tag, *arguments), static, semantics))

    def compile_lark(self, grammar: str, *, start: str = "start") -> CompiledGrammar:
        """Compile a Lark grammar. It accepts what Lark accepts with ``parser="lalr"`` and ``lexer="basic"``.

        For XGrammar's dialect of Lark, which has no lexer, use
        ``compile_grammar(xgrammar.Grammar.from_lark(text))``.

        Args:
            grammar: the text.
            start: the start rule.

        Raises:
            GrammarError: Lark refuses the grammar; the message is Lark's.
            UnsupportedGrammar: a terminal or option is not supported; the message names it.
            BudgetExceeded: the grammar exceeds the budget.
            StrategyError: the compiler's strategy runs grammars in XGrammar, which has no lexer.
        """
        return self._now(LarkRequest(grammar, start, settings=self._settings))

    def compile_lark_dialect(
        self, text: str, tokenizer_info: xgrammar.TokenizerInfo, named: Any = None
    ) -> CompiledGrammar:
        """Compile a grammar in XGrammar's dialect of Lark, for `adapters.xgrammar`.

        Args:
            text: the grammar.
            tokenizer_info: the tokenizer, for tokens that the text names.
            named: the grammars that the text names, as texts or `xgrammar.Grammar` objects.
        """
        return self._now(LarkDialectRequest(text, tokenizer_info, named, settings=self._settings))

    def compile_many(
        self,
        grammars: Iterable[str | xgrammar.Grammar | Source | tuple[Any, ...]],
        n_jobs: int | None = None,
        *,
        on_error: Literal["raise", "return"] = "raise",
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Any]:
        """Compile many grammars in threads.

        Args:
            grammars: texts and grammars as for `compile_grammar`, or tuples (kind, argument, options):
                ``("json_schema", schema)``, ``("regex", text)``, ``("builtin_json",)`` and so on.
            n_jobs: number of threads, at most 1,024. -1 is one for each core, -2 one less. None is what
                joblib is configured with, or 1.
            on_error: "raise" the first error, which names its grammar as ``grammars[i]``, or "return" errors
                in the list, in the places of their grammars.
            progress: called after each grammar with the number of grammars done and of all.

        Returns:
            The compiled grammars in order.

        Raises:
            HybridError: an item is not a grammar, or cannot be compiled.
        """
        return compile_all(self, grammars, n_jobs, on_error, progress)

    def compile_grammar_async(
        self, grammar: str | xgrammar.Grammar, *, root_rule_name: str = "root", static: bool = False
    ) -> CompileFuture:
        """`compile_grammar` in one of the compiler's `n_jobs` background threads.

        Returns:
            A `concurrent.futures.Future` that can also be cancelled while it is running. The budget's seconds
            start when a thread starts to work on it. An error of the compilation is raised by the future.

        Raises:
            HybridError: the compiler is closed.
        """
        return self._background.submit(self._grammar(grammar, root_rule_name, static))

    def compile_json_schema_async(self, schema: Any, **options: Any) -> CompileFuture:
        """`compile_json_schema` in the background, with the same options; see `compile_grammar_async`."""
        return self._background.submit(self._schema(schema, **options))

    def compile_builtin_json_grammar_async(self, *, static: bool = False) -> CompileFuture:
        """`compile_builtin_json_grammar` in the background; see `compile_grammar_async`."""
        return self._background.submit(BuiltinJsonRequest(settings=self._settings, static=static))

    def compile_regex_async(self, regex: str, *, static: bool = False) -> CompileFuture:
        """`compile_regex` in the background; see `compile_grammar_async`."""
        return self._background.submit(RegexRequest(regex, settings=self._settings, static=static))

    def compile_structural_tag_async(
        self, structural_tag: Any, *arguments: Any, static: bool = False, semantics: str | None = None
    ) -> CompileFuture:
        """`compile_structural_tag` in the background; see `compile_grammar_async`."""
        return self._background.submit(self._tag((structural_tag, *arguments), static, semantics))

    def compile_lark_async(self, grammar: str, *, start: str = "start") -> CompileFuture:
        """`compile_lark` in the background; see `compile_grammar_async`."""
        return self._background.submit(LarkRequest(grammar, start, settings=self._settings))

    def _now(self, request: Request) -> CompiledGrammar:
        return self._pipeline.run(request, self._compilation.begin())

    def _grammar(self, grammar: str | xgrammar.Grammar, root_rule_name: str, static: bool) -> Request:
        if isinstance(grammar, xgrammar.Grammar):
            return GrammarRequest(grammar, settings=self._settings, static=static)
        return EbnfRequest(grammar, root_rule_name, settings=self._settings, static=static)

    def _schema(
        self, schema: Any, strict: bool = False, static: bool = False, semantics: str | None = None,
        relax: bool = False, assert_formats: bool | None = None, registry: Any = None, **options: Any,
    ) -> Request:  # fmt: skip
        """The request of a call for a schema."""
        semantics = self._meaning(semantics)
        options = self._with_white_space(options, semantics)
        if semantics == "json-schema":
            formats = self.assert_formats if assert_formats is None else assert_formats
            return ExactSchemaRequest(
                schema, options, strict, relax, formats, registry, settings=self._settings, static=static
            )
        if relax:
            raise HybridError(
                "relax=True is an option of semantics='json-schema' only: XGrammar always ignores "
                "what it does not know, and CompiledGrammar.relaxed lists that"
            )
        if assert_formats is not None or registry is not None:
            name = "registry" if assert_formats is None else "assert_formats"
            raise HybridError(
                f"{name} is an option of semantics='json-schema' only; pass semantics='json-schema' "
                f"too, or omit {name}"
            )
        return JsonSchemaRequest(schema, options, strict, settings=self._settings, static=static)

    def _with_white_space(self, options: dict[str, Any], semantics: str) -> dict[str, Any]:
        """The options of a schema, changed in place: with the compiler's limit on white space unless the call
        has one."""
        most = options.pop("max_whitespace_cnt", None)
        if most is None:
            most = self.max_whitespace_cnt
        if most is None:
            most = MOST_WHITE_SPACE if semantics == "json-schema" else NO_BOUND
        if most != NO_BOUND:
            options["max_whitespace_cnt"] = most
        return options

    def _tag(self, arguments: tuple[Any, ...], static: bool, semantics: str | None) -> Request:
        """The request of a call for a structural tag."""
        if self._meaning(semantics) == "xgrammar":
            return StructuralTagRequest(arguments, settings=self._settings, static=static)
        options = self._with_white_space({}, "json-schema")
        return ExactTagRequest(
            arguments, "", options, self.assert_formats, settings=self._settings, static=static
        )

    def _meaning(self, semantics: str | None) -> str:
        """The semantics of a call: the compiler's unless the call names one."""
        return self.semantics if semantics is None else one_of(SEMANTICS, semantics, "semantics", HybridError)

    def close(self) -> None:
        """Stop the background threads. Cancel calls of ``_async`` methods that have not started; wait for
        those that have, unless a callback of such a call closes the compiler.

        All other methods can still be used. Without `close`, the threads stop when the compiler is
        garbage-collected, or at the end of the program, which cancels all unfinished calls.
        """
        self._background.close()
        self._compilation.guard.close()

    def __enter__(self) -> GrammarCompiler:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a GrammarCompiler cannot be copied or pickled: threads may share one, but each process "
            "needs its own; with cache_dir, processes share compiled grammars"
        )

    def stats(self) -> dict[str, Any]:
        """Counts of what this compiler has done so far, in a new dict. Its keys are:

        - "compilations": grammars compiled; "shared": calls that waited for an equal one that was running;
        - "promotions": how many static grammars were completed ("done"), or not because of the budget
          ("given_up");
        - "overdue", "cancelled": compilations that ran out of time, or whose callers all cancelled;
        - "memory", "disk": "hits", "misses", "evictions", "bytes" and "limit_bytes". "disk" also has
          "writes", "damaged" (entries that could not be used), "failures" (of the file system), "shared"
          (misses for which this process waited until another one had written the file) and "overdue" (waits
          that took too long). The bytes on disk are as of the last time the folder was listed;
        - "seconds": total seconds by phase;
        - "strategies": for each strategy its "count" and "reasons", without numbers and names;
        - "errors": errors by type;
        - "compile_seconds", "first_mask_seconds": by strategy and semantics, their "sum", and "counts" for
          the ranges of `hybrid.compile.durations.BOUNDS`;
        - "refusals", "relaxations": with "json-schema", the keywords for which schemas were refused, or that
          were left out of them.
        """
        found = self._statistics.snapshot()
        found["memory"].update(bytes=self._memory.size_bytes, limit_bytes=self._memory.limit_bytes)
        size, limit = (0, 0) if self._disk is None else (self._disk.size_bytes, self._disk.limit_bytes)
        found["disk"].update(bytes=size, limit_bytes=limit)
        return found

    def clear_cache(self) -> None:
        """Drop all compiled grammars from memory, for all compilers that share it.

        Grammars that are in use stay usable. Files stay, too; you may delete those of the folder at any time.
        """
        self._memory.clear()

    def get_cache_size_bytes(self) -> int:
        """Bytes of the compiled grammars in memory, for all compilers that share it.

        A grammar grows while new texts are read with it, so sizes are computed at each call.
        """
        return self._memory.measured_bytes()

    @property
    def cache_limit_bytes(self) -> int:
        """The size limit of the memory cache."""
        return self._memory.limit_bytes
