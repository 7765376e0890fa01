"""The strategies that run in XGrammar: over one representative for each class, or over the whole vocabulary.

What: `EngineStrategies` compiles a grammar on "representatives", or else on "engine", and says why. Its steps
share deadlines and the exploration of classes with the classifier's (`hybrid.compile.compilation`).
When: if a grammar gets no classifier, or the compiler was told to use one of the two. Thread-safe.
Limits: none of its own; `Budget` bounds each step.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import xgrammar

from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary
from equivalence.classes.byte_strings import Features, find_features
from equivalence.classes.byte_strings.classes import byte_string_classes
from equivalence.classes.classes import TokenClasses, classes_and_network
from equivalence.deadline import Deadline
from equivalence.network import Network, serial
from equivalence.network.layouts import written
from equivalence.network.optimised import OptimisedBy
from equivalence.network.reading import ReadGrammar, read_grammar
from hybrid.api.compiled import (
    CompiledGrammar,
    OnEngine,
    OnRepresentatives,
    reason_of,
)
from hybrid.compile.request import Settings
from hybrid.compile.rule import Choice, Measured, choose
from hybrid.compile.strategy import OWN_SHARE, Budget
from hybrid.json_schema import SchemaGrammar, in_xgrammar
from hybrid.representatives.engines import Engines
from hybrid.representatives.gather import Gather
from hybrid.representatives.handover import Rival
from hybrid.representatives.token_level import (
    refuse_captured_representatives,
    refuse_missing_bytes,
)
from hybrid.xgrammar.guard import Guard
from hybrid.xgrammar.sanitize import classes_as_rules, shield_root, without_lookahead


class EngineStrategies:
    """Compiles grammars of one compiler that run in XGrammar.

    Args:
        vocabulary: the vocabulary.
        settings: the compiler's settings.
        guard: calls XGrammar.
    """

    def __init__(self, vocabulary: Vocabulary, settings: Settings, guard: Guard | None = None) -> None:
        self.vocabulary = vocabulary
        self.settings = settings
        self.guard = Guard(settings.budget) if guard is None else guard
        self._engines = Engines(vocabulary, settings.n_jobs, self.guard)

    def begin(self) -> Deadline:
        """The deadline of a compile call that starts now. Deadlines of compile calls are made only here."""
        if self.settings.strategy != "engine":
            self.vocabulary.byte_order  # noqa: B018 - made once for a vocabulary, so not within a deadline
        return Deadline(self.settings.budget.seconds)

    def own_part(self, deadline: Deadline) -> AbstractContextManager[Deadline]:
        """The deadline of our own part, which leaves time for another strategy if one may follow."""
        stands_in = self.settings.on_budget == "engine" and self.settings.strategy != "representatives"
        return deadline.part(OWN_SHARE if stands_in else 1.0)

    def refuse_to_fall_back(self, error: Exception, deadline: Deadline) -> None:
        """Raise an error again if no other strategy may follow it."""
        if isinstance(error, BudgetExceeded) and (self.settings.on_budget == "raise" or deadline.is_over):
            raise error

    def explored(
        self, grammar: ReadGrammar | dict[str, Any], own: Deadline, deadline: Deadline
    ) -> tuple[TokenClasses | None, Network | None, str]:
        """The explored classes and the network; or the reason why there are none."""
        budget = self.settings.budget
        try:
            with OptimisedBy(self.guard.optimise(own)):
                classes, network = classes_and_network(
                    grammar, self.vocabulary, "acceptance", budget.capacity, budget.states, own
                )
        except (UnsupportedGrammar, BudgetExceeded) as error:
            self.refuse_to_fall_back(error, deadline)
            return None, None, str(error)
        return classes, network, ""

    def on_classes(
        self,
        grammar: xgrammar.Grammar,
        serialized: dict[str, Any],
        changed: bool,
        features: Features,
        timings: dict[str, float],
        deadline: Deadline,
        cause: str = "",
        classes: TokenClasses | None = None,
        unexplored: str = "",
    ) -> CompiledGrammar:
        """Compile a grammar on representatives, or else on the engine.

        Args:
            classes: the token classes, if they are known.
            unexplored: why exploring cannot give classes, if that is known.
        """
        refused = ""
        try:
            refuse_captured_representatives(features)
            if classes is None and not unexplored and not features.beyond_stacks:
                with self.own_part(deadline) as own:
                    classes, _, unexplored = self.explored(serialized, own, deadline)
            if classes is None:
                with self.own_part(deadline) as own, OptimisedBy(self.guard.optimise(own)):
                    classes = byte_string_classes(
                        serialized,
                        self.vocabulary,
                        features=features,
                        cause=unexplored,
                        deadline=own,
                    )
            refuse_missing_bytes(features, self.vocabulary, classes)
            classes = _with_trial(serialized, features, classes)
            refused = (
                "" if self.settings.strategy == "representatives" else _too_many(classes, self.vocabulary)
            )
        except (UnsupportedGrammar, BudgetExceeded) as error:
            self.refuse_to_fall_back(error, deadline)
            if self.settings.strategy == "representatives":
                raise
            refused = str(error)
        if refused or classes is None:
            safe = as_changed(grammar, serialized, changed)
            reason = f"no token classes: {refused}" + (f"; {cause}" if cause else "")
            return self.on_engine(grammar, safe, reason, timings, deadline)
        timings.update(classes.seconds)
        changed = without_lookahead(serialized) or changed
        if _may_change(features, classes):
            changed = classes_as_rules(serialized) or changed
        return self._on_representatives(
            grammar, serialized, changed, features, classes.settled(), timings, cause, deadline
        )

    def on_engine(
        self,
        grammar: xgrammar.Grammar,
        safe: xgrammar.Grammar,
        reason: str,
        timings: dict[str, float],
        deadline: Deadline,
    ) -> CompiledGrammar:
        began = time.perf_counter()
        # it is written for the estimate, and for the process that tries it
        deadline.check("writing the grammar for XGrammar's compiler", 2 * timings.get("serialize", 0.0))
        engine = self._engines.whole(safe, deadline)
        timings["compile"] = time.perf_counter() - began
        return OnEngine(
            reason=reason, vocabulary=self.vocabulary, grammar=grammar, engine=engine, timings=timings,
            mask_seconds=self.settings.budget.mask_seconds,
        )  # fmt: skip

    def _on_representatives(
        self,
        grammar: xgrammar.Grammar,
        serialized: dict[str, Any],
        changed: bool,
        features: Features,
        classes: TokenClasses,
        timings: dict[str, float],
        cause: str,
        deadline: Deadline,
    ) -> CompiledGrammar:
        deadline.check("the gather")
        began = time.perf_counter()
        gather = Gather(classes, self.vocabulary.size)
        gathered = time.perf_counter()
        tokens, stop, in_ids, with_ids = self._engines.representatives(serialized, features, classes)
        safe = as_changed(grammar, in_ids, changed or with_ids)
        engine = self._engines.over(tokens, stop, safe, deadline)
        timings["gather"] = gathered - began
        reason = reason_of(classes, self.vocabulary) + (f"; {cause}" if cause else "")
        timings["compile"] = time.perf_counter() - gathered
        # with explored classes, masks are computed from fewer tokens than plain XGrammar's
        lonely = self.settings.deterministic or features.max_tokens or classes.method == "explored"
        tried = classes.trial or classes.trial_after
        rival = None if lonely or tried else self._rival(grammar, serialized)
        return OnRepresentatives(
            reason=reason, vocabulary=self.vocabulary, grammar=grammar, engine=engine, engine_stop=stop,
            classes=classes, gather=gather, features=features, timings=timings, rival=rival,
            mask_seconds=self.settings.budget.mask_seconds,
        )  # fmt: skip

    def _rival(self, grammar: xgrammar.Grammar, serialized: dict[str, Any]) -> Rival:
        """XGrammar over the whole vocabulary, in case it turns out to be faster. Its masks are exact, too."""
        price = partial(self.guard.compile_seconds, grammar, self.vocabulary.size)
        return Rival(price, partial(self._trusted, grammar, serialized))

    def _trusted(self, grammar: xgrammar.Grammar, serialized: dict[str, Any]) -> CompiledGrammar:
        safe = as_changed(grammar, serialized, True)
        return OnEngine(
            reason="faster than representatives", vocabulary=self.vocabulary, grammar=grammar,
            engine=self._engines.trusted(safe, self.begin()),
            mask_seconds=self.settings.budget.mask_seconds,
        )  # fmt: skip


def without_classifier(
    grammar: xgrammar.Grammar | SchemaGrammar,
    vocabulary: Vocabulary,
    budget: Budget,
    n_jobs: int = 1,
    deterministic: bool = False,
) -> CompiledGrammar:
    """Compile a grammar on representatives or the engine, for matchers that a classifier cannot serve."""
    serialized, grammar = read_grammar(grammar).whole(), in_xgrammar(grammar)
    features = find_features(serialized)
    compilation = EngineStrategies(vocabulary, Settings("auto", budget, n_jobs, deterministic=deterministic))
    deadline = compilation.begin()
    return compilation.on_classes(grammar, serialized, shield_root(serialized), features, {}, deadline)


def _may_change(features: Features, classes: TokenClasses) -> bool:
    """Whether rules may be added to a grammar so that XGrammar's masks can be trusted.

    If masks depend on more than bytes and stacks, added rules could change what is counted and what a lazy
    rule is. They could also do harm if a token is read as an id and as text at once.
    """
    return not features.beyond_stacks or (features.only_edges and not classes.trial_after)


def _with_trial(serialized: dict[str, Any], features: Features, classes: TokenClasses) -> TokenClasses:
    """The classes, marked for trial if the grammar would need additional rules but may not get them."""
    if classes.trial or _may_change(features, classes):
        return classes
    lists = (serial.DATA, serial.STARTS, serial.RULES)
    needed = classes_as_rules({name: list(serialized[name]) for name in lists})
    return replace(classes, trial=True) if needed else classes


def choice_of(stacks_decide: bool, classes: TokenClasses, vocabulary: Vocabulary) -> Choice:
    """The choice of "auto" for a grammar with these classes."""
    text = vocabulary.size - len(vocabulary.special_token_ids)
    explored = classes.method == "explored"
    tried = classes.trial or bool(classes.trial_after)
    return choose(Measured(stacks_decide, explored, classes.n_classes, text, tried))


def _too_many(classes: TokenClasses, vocabulary: Vocabulary) -> str:
    """Why the classes are not used: there are hardly fewer than tokens, so they cost more than they save."""
    choice = choice_of(False, classes, vocabulary)
    return "" if choice.strategy != "engine" else f"{classes.cause}; {classes.method}: {choice.reason}"


def as_changed(grammar: xgrammar.Grammar, serialized: dict[str, Any], changed: bool) -> xgrammar.Grammar:
    """The grammar itself, or a new one made from its changed serialised form.

    Data that XGrammar's compiler may have added is removed, because it does not fit the changed rules.
    """
    if not changed:
        return grammar
    return xgrammar.Grammar.deserialize_json(written({**serialized, **serial.NOT_COMPILED}))
