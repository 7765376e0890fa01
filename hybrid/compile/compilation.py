"""One compilation: turns a grammar into a `CompiledGrammar` on one of the strategies.

What: `Compilation` tries the steps of the chosen strategy. If a step refuses the grammar, it tries the next
possibility: a classifier, representatives, plain XGrammar. The result says why.
When: called for each grammar that is in no cache (`hybrid.compile.pipeline`). Thread-safe.
Limits: none of its own; `Budget` bounds each step.

Rejected: a rule that reads a clock. The same schema would get different strategies on a busy machine, and no
test could predict which.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from sys import getsizeof
from typing import Any

import xgrammar

from equivalence import BudgetExceeded, GrammarError, HybridError, UnsupportedGrammar
from equivalence.classes.classes import TokenClasses, network_within
from equivalence.deadline import Deadline
from equivalence.lark.classes import factored_classes
from equivalence.network import Network, serial
from equivalence.network.features import features_of
from equivalence.network.grammar_reader import ParsedGrammar, read_grammar
from equivalence.network.token_ids import ids_as_bytes
from hybrid.classifier import Classifier, distinct_classes, fixed_tables
from hybrid.classifier.deferred_classes import DeferredClasses
from hybrid.classifier.named_ids import NamedIds
from hybrid.classifier.promotion import promote_classifier
from hybrid.classifier.walk_tables import WalkTables, walk_tables
from hybrid.compile.engine_strategies import (
    EngineStrategies,
    Job,
    refuse_beyond_stacks,
    refuse_unknown_ids,
)
from hybrid.compiled import CompiledGrammar, reason_of
from hybrid.json_schema import SchemaGrammar, in_xgrammar
from hybrid.lark import FactoredClassifier, LarkGrammar
from hybrid.lark import fixed_tables as lark_tables
from hybrid.xgrammar.messages import shortened
from hybrid.xgrammar.sanitize import as_changed, refuse_endless_rules, shield_root

PARSED_BYTES = 10
"""About how many bytes a grammar that XGrammar has parsed takes for each number of its expressions: measured,
4 to 13."""


class Compilation(EngineStrategies):
    """The compilations of one compiler; for the arguments see `EngineStrategies`."""

    def decide(
        self, grammar: xgrammar.Grammar | SchemaGrammar, parsing: float, deadline: Deadline,
        read_text: Callable[[Any], ParsedGrammar | None],
    ) -> CompiledGrammar:  # fmt: skip
        """Compile a parsed grammar on the chosen strategy, or on the next possible one.

        Args:
            grammar: the grammar.
            parsing: how many seconds parsing took.
            read_text: reads the grammar from a text that takes less time to make than its serialised form,
                if there is one. Walks need no more.
        """
        job = Job(grammar, parsing, deadline)
        began = time.perf_counter()
        try:
            job.read = read = (read_text(grammar) if self.settings.walks else None) or read_grammar(grammar)
        except GrammarError as error:
            if self.settings.strategy == "representatives":
                raise
            # a grammar of unknown layout cannot be checked for what would crash XGrammar's compiler
            return self.on_engine(job, in_xgrammar(grammar), f"no token classes: {error}")
        if isinstance(grammar, xgrammar.Grammar):
            job.source_bytes = PARSED_BYTES * len(read.data)
        deadline.check("reading the grammar")
        # lists of all expressions are made only if they are needed
        if serial.REPEAT in read.types:
            refuse_endless_rules(read)
        job.features = features_of(read)
        if job.features.named:
            refuse_unknown_ids(job.features, self.vocabulary)
        deadline.check("reading the grammar")
        job.timings["serialize"] = time.perf_counter() - began
        if self.settings.strategy in ("auto", "classifier"):
            return self._on_classifier(job)
        if self.settings.strategy == "engine":
            serialized = read.whole()
            safe = as_changed(in_xgrammar(grammar), serialized, shield_root(serialized))
            return self.on_engine(job, safe, "requested by strategy='engine'")
        return self.on_classes(job)

    def on_lark(self, grammar: LarkGrammar, deadline: Deadline) -> CompiledGrammar:
        """Build the classifier of a Lark grammar. No other strategy can run it.

        It takes 0.1 s for a small grammar, and 2 s for one of a programming language.
        """
        budget, vocabulary = self.settings.budget, self.vocabulary
        deadline.check("waiting for Lark")
        try:
            lexer, machine, terminals, seconds = self.guard.lark(grammar.text, grammar.start, deadline)
        except HybridError as error:
            error.args = (shortened(error),)  # it may name long names, and Lark quotes patterns
            raise
        factored = factored_classes(
            lexer, machine, vocabulary, max_sequences=budget.states, max_bytes=budget.bytes, deadline=deadline
        )
        began, classes = time.perf_counter(), factored.tokens
        deadline.check("the tables of the classifier")
        fixed = lark_tables(lexer, machine, factored, *vocabulary.flat)
        classifier = FactoredClassifier(fixed, classes, vocabulary, budget.table_bytes)
        return CompiledGrammar(
            strategy="classifier", vocabulary=vocabulary, grammar=grammar._replace(terminals=terminals),
            reason=f"the only strategy for Lark grammars; {reason_of(classes, vocabulary)}",
            found=classes, classifier=classifier, mask_seconds=budget.mask_seconds,
            timings={**seconds, **classes.seconds, "classifier": time.perf_counter() - began},
            source_bytes=sum(getsizeof(one.pattern) for one in terminals),
        )  # fmt: skip

    def _on_classifier(self, job: Job) -> CompiledGrammar:
        """Build a classifier, or compile the grammar on the next possible strategy."""
        classes = classifier = ids = None
        read, deadline = job.read, job.deadline
        own = self.own_deadline(deadline)
        try:
            refuse_beyond_stacks(job.features, read.features)
            if job.features.only_ids:
                read, symbols = ids_as_bytes(read)
                ids = NamedIds(symbols, self.vocabulary)
            if self.settings.walks:
                return self._on_walks(job, read, ids, own)
            classes, network = self.explored(job, read, own)
            began = time.perf_counter()
            classifier, cause = self._build_classifier(job, network, classes, ids, own)
        except (UnsupportedGrammar, BudgetExceeded) as error:
            self.refuse_to_fall_back(error, deadline)
            refused = str(error)
        if classifier is None or classes is None:  # the memory used so far has been freed
            return self.on_classes(job, f"no classifier: {refused}", None if ids else classes)
        job.timings.update(classes.seconds)
        job.timings["classifier"] = time.perf_counter() - began
        if ids:
            classes = ids.refined(classes, self.vocabulary)
        reason = reason_of(classes, self.vocabulary)
        if self.settings.strategy == "classifier":
            reason = f"requested by strategy='classifier'; {reason}"
        if cause:
            reason += f"; states are computed on demand, because {cause}"

        return CompiledGrammar(
            strategy="classifier", reason=reason, vocabulary=self.vocabulary, grammar=job.grammar,
            found=classes, features=job.features, classifier=classifier, budget=self.settings.budget,
            timings=job.timings, mask_seconds=self.settings.budget.mask_seconds,
            source_bytes=job.source_bytes,
        )  # fmt: skip

    def _on_walks(
        self, job: Job, read: ParsedGrammar, ids: NamedIds | None, own: Deadline
    ) -> CompiledGrammar:
        """A classifier that gets its masks from walks until there are classes.

        Raises:
            UnsupportedGrammar, BudgetExceeded: that is impossible.
        """
        budget = self.settings.budget
        began = time.perf_counter()

        def build() -> tuple[Network, float, WalkTables]:
            network = network_within(read, self.vocabulary, "acceptance", budget.capacity, budget.states, own)
            return network, time.perf_counter(), walk_tables(network, self.vocabulary, own)

        network, built, fixed = self.explore(job, own, build)
        classifier = Classifier(fixed, None, self.vocabulary, budget.table_bytes, ids=ids)
        job.timings |= {"network": built - began, "classifier": time.perf_counter() - built}
        return CompiledGrammar(
            strategy="classifier",
            reason=f"masks are computed by walking the vocabulary ({self.vocabulary.size} ids), without "
            "token classes",
            vocabulary=self.vocabulary, grammar=job.grammar, timings=job.timings,
            mask_seconds=budget.mask_seconds, features=job.features, classifier=classifier, budget=budget,
            deferred=DeferredClasses(network, classifier, budget, ids), source_bytes=job.source_bytes,
        )  # fmt: skip

    def _build_classifier(
        self, job: Job, network: Network, classes: TokenClasses, ids: NamedIds | None, own: Deadline
    ) -> tuple[Classifier, str]:
        """The classifier, and the reason why some of its states are computed on demand (empty if none
        are)."""
        budget = self.settings.budget
        own.check("the tables of the classifier")
        texts, grouped = distinct_classes(classes, self.vocabulary)
        fixed = fixed_tables(network, texts, *self.vocabulary.flat, own)
        made = Classifier(fixed, grouped, self.vocabulary, budget.table_bytes, ids=ids)
        if self.settings.on_demand:
            return made, "on_demand=True"
        try:
            promote_classifier(made, budget, own)
        except BudgetExceeded as error:
            self.refuse_to_fall_back(error, job.deadline)
            return made, str(error)
        return made, ""
