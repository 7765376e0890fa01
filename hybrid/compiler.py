"""The compiler: a grammar in, a `CompiledGrammar` on the best strategy out.

What: XGrammar's `GrammarCompiler`, with its methods and options; the grammar is parsed by XGrammar, its token
classes are computed, and a classifier is made of them, or XGrammar compiles it over one representative per
class. Lark grammars are parsed by Lark.
When: one per vocabulary; thread-safe.
Limits: equal calls are served from a bounded memory cache; nothing is written to disk but by
`CompiledGrammar.save`.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
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
from hybrid.classifier import Classifier, build_summaries, distinct_classes, fixed_tables
from hybrid.classifier.minimise import minimised
from hybrid.compiled import CompiledGrammar
from hybrid.factored import FactoredClassifier, LarkGrammar, build
from hybrid.factored import fixed_tables as lark_tables
from hybrid.gather import Gather
from hybrid.parallel import Source, compile_all
from hybrid.relaxed import describe, schema_text
from hybrid.sanitize import prefix_closed, refuse_endless_rules, shield_root, without_lookahead
from hybrid.strategy import Budget, check_strategy
from hybrid.token_level import (
    in_engine_ids,
    refuse_beyond_stacks,
    refuse_captured_representatives,
    refuse_missing_bytes,
    refuse_unknown_ids,
)

DEFAULT_CACHE_BYTES = 512 * 2**20


class GrammarCompiler:
    """Compiles grammars for one vocabulary.

    Args:
        vocabulary: a `Vocabulary`, or an `xgrammar.TokenizerInfo`.
        strategy: "auto" (a classifier on demand; where there can be none, representatives; where classes
            cannot be had, the engine), "classifier" (ahead of time, or by name what else can be had),
            "representatives" (an error where they cannot be had) or "engine" (plain XGrammar).
        cache_dir: reserved for compiled grammars on disk; must be None in this version (see
            `CompiledGrammar.save`).
        budget: bounds of one compilation.
        n_jobs: threads of XGrammar's own compilation.
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
        cache_dir: None = None,
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
        if cache_dir is not None:
            raise HybridError("cache_dir is not part of this version; leave it at None")
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
        self._lock = threading.Lock()
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

        def with_schema() -> CompiledGrammar:
            compiled = self._parsed(key, lambda: xgrammar.Grammar.from_json_schema(schema, **options))
            return replace(compiled, schema=schema_text(schema, options))

        compiled = self._cached(key, with_schema)
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

    def clear_cache(self) -> None:
        """Forget all compiled grammars; those in use stay usable."""
        with self._lock:
            self._cache.clear()
            self._cache_bytes = 0

    def get_cache_size_bytes(self) -> int:
        """Bytes of the compiled grammars kept."""
        return self._cache_bytes

    @property
    def cache_limit_bytes(self) -> int:
        """Bound of the memory cache."""
        return self._cache_limit

    def _compile(self, key: Any, parse: Callable[[], xgrammar.Grammar]) -> CompiledGrammar:
        return self._cached(key, lambda: self._parsed(key, parse))

    def _parsed(self, key: Any, parse: Callable[[], xgrammar.Grammar]) -> CompiledGrammar:
        began = time.perf_counter()
        grammar = _parse(key[0].replace("_", " "), parse)
        return self._decide(grammar, time.perf_counter() - began)

    def _cached(self, key: Any, compile_it: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        if self._cache_enabled:
            with self._lock:
                known = self._cache.get(key)
                if known is not None:
                    self._cache.move_to_end(key)
                    return known[0]
        began = time.perf_counter()
        compiled = compile_it()
        compiled.timings["total"] = time.perf_counter() - began
        if self._cache_enabled:
            self._keep(key, compiled)
        return compiled

    def _keep(self, key: Any, compiled: CompiledGrammar) -> None:
        size = compiled.memory_size_bytes
        with self._lock:
            if size > self._cache_limit or key in self._cache:
                return
            self._cache[key] = compiled, size
            self._cache_bytes += size
            while self._cache_bytes > self._cache_limit:
                _, (_, dropped) = self._cache.popitem(last=False)
                self._cache_bytes -= dropped

    def _decide(self, grammar: xgrammar.Grammar, parsing: float) -> CompiledGrammar:
        """Representatives where classes can be had, else the engine, by name."""
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
