"""The strategies that run in XGrammar: over one representative for each class, or over the whole vocabulary.

What: `EngineStrategies` compiles a grammar on "representatives", or else on "engine", and says why. Its steps
share deadlines and the exploration of classes with the classifier's (`hybrid.compile.compilation`). The
functions refuse what a classifier, or any strategy, cannot decide; docs/limits.md lists all constructs.
When: if a grammar gets no classifier, or the compiler was told to use one of the two. Thread-safe.
Limits: none of its own; `Budget` bounds each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import xgrammar

from equivalence import BudgetExceeded, GrammarError, UnsupportedGrammar, Vocabulary
from equivalence.classes.classes import TokenClasses, classes_and_network
from equivalence.deadline import Deadline
from equivalence.network import Network, serial
from equivalence.network.features import Features
from equivalence.network.grammar_reader import ParsedGrammar, PlainRules
from equivalence.network.optimised import optimised_by
from hybrid.compile.settings import Settings
from hybrid.compiled import CompiledGrammar, reason_of
from hybrid.guard import Guard
from hybrid.json_schema import SchemaGrammar, in_xgrammar
from hybrid.representatives.engines import Engines
from hybrid.values.budget import OWN_SHARE
from hybrid.values.gather import Gather
from hybrid.xgrammar.sanitize import as_changed, classes_as_rules, shield_root, without_lookahead

Result = TypeVar("Result")


class Job:
    """A grammar that is being compiled.

    Attributes:
        grammar: the grammar.
        timings: the seconds of each phase so far.
        deadline: the deadline of the call.
        read, features: what XGrammar's serialised form says, and what it needs; set as soon as it is read.
        unexplored: why its network cannot be explored; empty if that is not known.
        source_bytes: about how many bytes the grammar takes; set as soon as it is read.
    """

    read: ParsedGrammar
    features: Features
    unexplored = ""
    source_bytes = 0

    def __init__(
        self, grammar: xgrammar.Grammar | SchemaGrammar, parsing: float, deadline: Deadline
    ) -> None:  # fmt: skip
        self.grammar, self.deadline = grammar, deadline
        self.timings = {"parse": parsing}

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Let errors of XGrammar's steps name the limit because of which XGrammar was tried: if that is
        raised, XGrammar is not needed."""
        try:
            yield
        except BudgetExceeded as error:
            if self.unexplored:
                why = f"XGrammar was tried because there is no classifier: {self.unexplored}"
                error.args = (f"{error}. {why}",)
            raise


class EngineStrategies:
    """Compiles grammars of one compiler that run in XGrammar.

    Args:
        vocabulary: the vocabulary.
        settings: the compiler's settings.
        guard: calls XGrammar.
    """

    def __init__(self, vocabulary: Vocabulary, settings: Settings, guard: Guard) -> None:
        self.vocabulary, self.settings, self.guard = vocabulary, settings, guard
        self._engines = Engines(vocabulary, settings.n_jobs, guard)

    def begin(self) -> Deadline:
        """The deadline of a compile call that starts now. Deadlines of compile calls are made only here."""
        if self.settings.strategy != "engine":
            self.vocabulary.byte_order  # noqa: B018 - made once for each vocabulary, outside the deadline
        return Deadline(self.settings.budget.seconds)

    def own_deadline(self, deadline: Deadline) -> Deadline:
        """The deadline of our own part, which leaves time for another strategy if one may follow."""
        stands_in = self.settings.on_budget == "engine" and self.settings.strategy != "representatives"
        return deadline.part(OWN_SHARE if stands_in else 1.0)

    def refuse_to_fall_back(self, error: Exception, deadline: Deadline) -> None:
        """Raise an error again if no other strategy may follow it."""
        if self.settings.strategy == "representatives":
            raise error
        if isinstance(error, BudgetExceeded) and (self.settings.on_budget == "raise" or deadline.is_over):
            raise error

    def explore(self, job: Job, own: Deadline, call: Callable[[], Result]) -> Result:
        """Make a call that explores a job's grammar, and record the reason if the grammar is refused."""
        try:
            return optimised_by(self.guard.optimise(own), call)
        except (UnsupportedGrammar, BudgetExceeded) as error:
            job.unexplored = str(error)
            raise

    def explored(
        self, job: Job, grammar: ParsedGrammar | dict[str, Any], own: Deadline
    ) -> tuple[TokenClasses, Network]:
        """The explored classes and the network of a job's grammar.

        Raises:
            UnsupportedGrammar, BudgetExceeded: it cannot be explored.
        """
        budget = self.settings.budget
        call = partial(
            classes_and_network, grammar, self.vocabulary, "acceptance", budget.capacity, budget.states, own
        )
        return self.explore(job, own, call)

    def on_classes(self, job: Job, cause: str = "", classes: TokenClasses | None = None) -> CompiledGrammar:
        """Compile a grammar that was read on representatives, or else on the engine.

        Args:
            job: the grammar.
            cause: why it has no classifier; "" if none was asked for.
            classes: the token classes, if they are known.

        Raises:
            UnsupportedGrammar, BudgetExceeded: it has no classes, and representatives were asked for.
        """
        with job.explained():
            serialized = job.read.whole()
        changed, grammar = shield_root(serialized), in_xgrammar(job.grammar)
        if job.features.beyond_stacks:
            classes, job.unexplored = None, beyond_stacks(job.features)
            if self.settings.strategy == "representatives":
                raise UnsupportedGrammar(
                    f"{job.unexplored}; use strategy='auto', which can run the grammar without "
                    "representatives"
                )
        elif classes is None and not job.unexplored:
            try:
                classes, _ = self.explored(job, serialized, self.own_deadline(job.deadline))
            except (UnsupportedGrammar, BudgetExceeded) as error:
                self.refuse_to_fall_back(error, job.deadline)
        if classes is None:
            safe = as_changed(grammar, serialized, changed)
            reason = f"no token classes: {job.unexplored}"
            if cause and not cause.endswith(f": {job.unexplored}"):
                reason += f"; {cause}"
            return self.on_engine(job, safe, reason)
        job.timings.update(classes.seconds)
        changed = without_lookahead(serialized) or changed
        safe = as_changed(grammar, serialized, classes_as_rules(serialized) or changed)
        return self._on_representatives(job, safe, classes, cause)

    def on_engine(self, job: Job, safe: xgrammar.Grammar, reason: str) -> CompiledGrammar:
        """Let XGrammar compile a grammar in a form in which it is safe."""
        began = time.perf_counter()
        # the estimate and the process that tries the compilation need the text
        seconds = 2 * job.timings.get("serialize", 0.0)
        with job.explained():
            job.deadline.check("writing the grammar for XGrammar's compiler", seconds)
            engine = self._engines.whole(safe, job.deadline)
        job.timings["compile"] = time.perf_counter() - began
        return CompiledGrammar(
            strategy="engine", reason=reason, vocabulary=self.vocabulary, grammar=in_xgrammar(job.grammar),
            engine=engine, timings=job.timings, mask_seconds=self.settings.budget.mask_seconds,
            budget=self.settings.budget, source_bytes=job.source_bytes,
        )  # fmt: skip

    def _on_representatives(
        self, job: Job, safe: xgrammar.Grammar, classes: TokenClasses, cause: str
    ) -> CompiledGrammar:
        job.deadline.check("the gather")
        began = time.perf_counter()
        gather = Gather(classes, self.vocabulary.size)
        gathered = time.perf_counter()
        engine, stop = self._engines.over(classes, safe, job.deadline)
        job.timings["gather"] = gathered - began
        job.timings["compile"] = time.perf_counter() - gathered
        return CompiledGrammar(
            strategy="representatives",
            reason=reason_of(classes, self.vocabulary) + (f"; {cause}" if cause else ""),
            vocabulary=self.vocabulary, grammar=in_xgrammar(job.grammar), engine=engine, engine_stop=stop,
            found=classes, gather=gather, timings=job.timings,
            mask_seconds=self.settings.budget.mask_seconds, budget=self.settings.budget,
            source_bytes=job.source_bytes,
        )  # fmt: skip


def refuse_unknown_ids(features: Features, vocabulary: Vocabulary) -> None:
    """Refuse a grammar that names an id outside of the vocabulary, on every strategy.

    XGrammar 0.2.8 reads past its tables when it compiles such a grammar, which may crash the process.

    Raises:
        GrammarError: the message names the ids.
    """
    unknown = [token_id for token_id in features.named if not 0 <= token_id < vocabulary.size]
    if unknown:
        raise GrammarError(
            f"the grammar names the token ids {unknown[:5]}, but ids of this vocabulary are from 0 to "
            f"{vocabulary.size - 1}; name only such ids"
        )


def beyond_stacks(features: Features) -> str:
    """Return the reason why a grammar with such constructs has no token classes."""
    return (
        f"the grammar uses {features}, so the allowed tokens depend on more than the text's bytes and the "
        "parser's stack"
    )


def refuse_beyond_stacks(features: Features, serialized: dict[str, Any]) -> None:
    """Refuse what a classifier cannot decide: it only knows bytes, ids and stacks.

    Raises:
        UnsupportedGrammar: the message names the construct.
    """
    if features.beyond_stacks and not features.only_ids:
        raise UnsupportedGrammar(beyond_stacks(features))
    if features.captures:
        raise UnsupportedGrammar("the grammar has captures, which only XGrammar records")
    rules = serialized[serial.RULES]
    if isinstance(rules, PlainRules):
        return
    if any(rule[serial.TEMPERATURE] is not None for rule in rules):
        raise UnsupportedGrammar("the grammar sets temperatures, which only XGrammar reports")
