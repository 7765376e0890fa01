"""One compilation: a grammar in, a `CompiledGrammar` on one of the strategies out.

What: `Compilation` does what the strategy asks for, step by step, and where a step refuses, what else the
grammar can be run on: a classifier, representatives, plain XGrammar. The reason is kept with the result.
When: by `hybrid.compiler`, once for each grammar that is in none of its caches; thread-safe.
Limits: none of its own; `Budget` bounds each step.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import xgrammar

from equivalence import BudgetExceeded, GrammarError, UnsupportedGrammar, Vocabulary
from equivalence.byte_strings import Features, find_features
from equivalence.classes import TokenClasses, classes_and_network, compute_classes
from equivalence.network import Network
from equivalence.network.reading import ReadGrammar, read_grammar
from hybrid.classifier import Classifier, build_summaries, distinct_classes, fixed_tables
from hybrid.classifier.minimise import minimised
from hybrid.compiled import CompiledGrammar
from hybrid.factored import FactoredClassifier, LarkGrammar, build
from hybrid.factored import fixed_tables as lark_tables
from hybrid.gather import Gather
from hybrid.sanitize import prefix_closed, refuse_endless_rules, shield_root, without_lookahead
from hybrid.strategy import Budget
from hybrid.token_level import (
    in_engine_ids,
    refuse_beyond_stacks,
    refuse_captured_representatives,
    refuse_missing_bytes,
    refuse_unknown_ids,
)


class Compilation:
    """How one compiler compiles.

    Args:
        vocabulary, strategy, budget, n_jobs, on_demand: as `hybrid.GrammarCompiler` takes them.
    """

    def __init__(
        self, vocabulary: Vocabulary, strategy: str, budget: Budget, n_jobs: int = 1, on_demand: bool = False
    ) -> None:
        self.vocabulary = vocabulary
        self.strategy = strategy
        self.budget = budget
        self.n_jobs = n_jobs
        self.on_demand = on_demand
        self._lock = threading.Lock()
        self._plain: xgrammar.GrammarCompiler | None = None
        self.on_phase: Callable[[str], None] = _nothing
        """Told the phase that begins, "classes" or "summaries", where a classifier is made."""

    def decide(self, grammar: xgrammar.Grammar, parsing: float) -> CompiledGrammar:
        """What the strategy asks for or, by name, what else the grammar can be run on."""
        timings = {"parse": parsing}
        began = time.perf_counter()
        try:
            read = read_grammar(grammar)
        except GrammarError as error:
            # nothing of another layout is read, not even to refuse what XGrammar's compiler does not survive
            if self.strategy == "representatives":
                raise
            return self._on_engine(grammar, grammar, f"no token classes: {error}", timings)
        serialized = read.whole()
        refuse_endless_rules(serialized)
        features = find_features(serialized)
        refuse_unknown_ids(features, self.vocabulary)
        timings["serialize"] = time.perf_counter() - began
        if self.strategy in ("auto", "classifier"):
            return self._on_classifier(grammar, read, serialized, features, timings)
        changed = shield_root(serialized)
        if self.strategy == "engine":
            safe = _as_changed(grammar, serialized, changed)
            return self._on_engine(grammar, safe, "asked for by strategy='engine'", timings)
        return self.on_classes(grammar, serialized, changed, features, timings)

    def on_lark(self, grammar: LarkGrammar) -> CompiledGrammar:
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
        read: ReadGrammar,
        serialized: dict[str, Any],
        features: Features,
        timings: dict[str, float],
    ) -> CompiledGrammar:
        """A classifier, or by name what else the grammar can be run on."""
        classes = None
        try:
            self.on_phase("classes")
            refuse_beyond_stacks(features, serialized)
            classes, network = classes_and_network(
                read, self.vocabulary, "acceptance", self.budget.capacity, self.budget.states,
                self.budget.seconds,
            )  # fmt: skip
            began = time.perf_counter()
            self.on_phase("summaries")
            classifier, cause = self._build_classifier(network, classes)
        except (UnsupportedGrammar, BudgetExceeded) as error:
            cause = f"no classifier: {error}"
            changed = shield_root(serialized)
            return self.on_classes(grammar, serialized, changed, features, timings, cause, classes)
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

    def on_classes(
        self,
        grammar: xgrammar.Grammar,
        serialized: dict[str, Any],
        changed: bool,
        features: Features,
        timings: dict[str, float],
        cause: str = "",
        classes: TokenClasses | None = None,
    ) -> CompiledGrammar:
        """Representatives, or by name the engine; `classes` where they are known already."""
        try:
            refuse_captured_representatives(features)
            if classes is None:
                classes = compute_classes(
                    serialized, self.vocabulary, capacity=self.budget.capacity,
                    max_states=self.budget.states, seconds=self.budget.seconds, on_budget="coarse",
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
    serialized = json.loads(grammar.serialize_json())
    features = find_features(serialized)
    compilation = Compilation(vocabulary, "auto", budget, n_jobs)
    return compilation.on_classes(grammar, serialized, shield_root(serialized), features, {})


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


def _as_changed(grammar: xgrammar.Grammar, serialized: dict[str, Any], changed: bool) -> xgrammar.Grammar:
    """The grammar itself, or what its changed serialised form says."""
    return xgrammar.Grammar.deserialize_json(json.dumps(serialized)) if changed else grammar


def _run(compiler: xgrammar.GrammarCompiler, grammar: xgrammar.Grammar) -> xgrammar.CompiledGrammar:
    try:
        return compiler.compile_grammar(grammar)
    except RuntimeError as error:
        raise GrammarError(f"XGrammar cannot compile the grammar: {error}") from error
