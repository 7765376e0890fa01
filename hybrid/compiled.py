"""A compiled grammar: the strategy chosen for it, and everything that its matchers share.

What: `CompiledGrammar`. Instances are immutable, so copying one returns the same object. One instance serves
any number of matchers in any number of threads.
When: made by `GrammarCompiler`, or read from a file that `save` wrote.
Limits: only grammars on strategy "classifier" can be saved (docs/artifacts.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import xgrammar

from equivalence import (
    ArgumentError,
    ArtifactError,
    BudgetExceeded,
    GrammarError,
    TokenClasses,
    UnsupportedGrammar,
    Vocabulary,
    forks,
)
from equivalence.arguments import path_of
from equivalence.deadline import Deadline
from equivalence.network import serial
from equivalence.network.features import Features
from equivalence.network.grammar_reader import read_grammar
from hybrid.classifier.classifier import Classifier
from hybrid.classifier.deferred_classes import DeferredClasses
from hybrid.classifier.promotion import promote_classifier
from hybrid.completion import Completions
from hybrid.explain import Explainer
from hybrid.guard import Guard
from hybrid.guard.recursion import ambiguous_calls
from hybrid.json_schema import Places, SchemaGrammar, in_xgrammar
from hybrid.lark import FactoredClassifier, LarkGrammar
from hybrid.representatives.engines import Engines
from hybrid.values.budget import Budget, check_budget
from hybrid.values.gather import Gather
from hybrid.xgrammar.relaxed import Differences, Narrowing, Relaxation, SchemaText, differences_of
from hybrid.xgrammar.sanitize import as_changed, may_force_endless_text, shield_root

_noting = forks.registered(threading.Lock(), forks.Order.BRIEF)
"""Protects `reason`, the only attribute that ever changes; see `CompiledGrammar.note`."""


@forks.with_unlocked_properties
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CompiledGrammar:
    """A grammar ready for matchers.

    Attributes:
        strategy: the strategy that was chosen: "classifier", "representatives" or "engine".
        reason: why it was chosen, and what has happened to the grammar since (`note`).
        vocabulary: the vocabulary of the masks.
        grammar: the grammar: as XGrammar parsed it, as it was made from a JSON schema, or a Lark grammar's
            text.
        found: the token classes, if they were known when the grammar was made; see `classes`.
        engine: XGrammar's compiled grammar. On "representatives" its vocabulary has one token per class, in
            the order of classes, then their missing prefixes, then a stop token. On "engine" it has the whole
            vocabulary. None on "classifier".
        engine_stop: the id of the stop token among the representatives; -1 on other strategies.
        gather: expands class masks; None on other strategies than "representatives".
        features: what the grammar needs to know of tokens besides their bytes; None unless the strategy is
            "classifier".
        classifier: computes masks on strategy "classifier"; None on others.
        deferred: computes the classes when they are needed, if masks come from walks until then; else None.
        budget: bounds of what is computed later: of compiling the grammar for XGrammar, if the classifier
            cannot serve a matcher, and of its completions; None for Lark grammars, which have neither.
        timings: seconds by phase: "network", "explore" and "partition" for token classes, "gather",
            "compile" (by XGrammar), "total"; "load" if it was read from a file.
        schema: the JSON schema that the grammar was made from; None for grammars in other notations.
        mask_seconds: time limit of one mask and of one token, see `Budget`.
        places: where matchers must remember items or keys that may not be repeated; None if nowhere.
        source_bytes: about how many bytes `grammar` takes, and the texts that it was made from, which it or a
            cache holds.
    """

    strategy: str
    reason: str
    vocabulary: Vocabulary
    grammar: xgrammar.Grammar | LarkGrammar | SchemaGrammar
    timings: dict[str, float] = field(default_factory=dict)
    schema: SchemaText | None = None
    mask_seconds: float | None = None
    places: Places | None = None
    engine: xgrammar.CompiledGrammar | None = None
    engine_stop: int = -1
    found: TokenClasses | None = None
    gather: Gather | None = None
    features: Features | None = None
    classifier: Classifier | None = None
    deferred: DeferredClasses | None = None
    budget: Budget | None = None
    source_bytes: int = 0

    awaited: ClassVar[Any] = None
    """Called with the seconds of the first mask; removed after that."""

    def await_first_mask(self, told: Callable[[float], object]) -> None:
        """Register a function that is called once, with the seconds that the first mask took."""
        self.__dict__["awaited"] = told  # not a field, so that neither files nor copies have it

    def first_mask_took(self, seconds: float) -> None:
        """Report the seconds of the first mask, unless that was done. Callers test `awaited` first."""
        told = self.__dict__.pop("awaited", None)
        if told is not None:
            told(seconds)

    def note(self, what: str) -> None:
        """Append to the reason what has happened to the grammar, unless it says so already."""
        with _noting:
            if what not in self.reason:
                object.__setattr__(self, "reason", f"{self.reason}; {what}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this compiled grammar, without its vocabulary, to a file. The write is atomic.

        Raises:
            StrategyError: the strategy is not "classifier"; the message says how to get it.
            ArtifactError: `path` is no path.
            OSError: the file cannot be written: `path` is a folder, for example.
        """
        from hybrid import files  # which makes compiled grammars

        files.save(self, path_of(path, "path", ArtifactError))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vocabulary: Vocabulary, *, budget: Budget = Budget()
    ) -> CompiledGrammar:
        """Read a compiled grammar that `save` wrote. This takes milliseconds, and the masks are the same.

        Args:
            path: the file. Trust it as you trust the program's code: damage is detected, malice is not.
            vocabulary: the vocabulary that the grammar was compiled for.
            budget: bounds of the tables, and of compiling again if a matcher exceeds them.

        Raises:
            ArtifactError: the file is missing or damaged, or belongs to another version or vocabulary.
        """
        from hybrid import files

        return files.load(path_of(path, "path", ArtifactError), vocabulary, budget=budget)

    def promote(self, *, budget: Budget = Budget()) -> bool:
        """Compute all states of the classifier now, instead of when texts first need them.

        Masks stay the same, and running matchers continue.

        Args:
            budget: bounds of the tables.

        Returns:
            Whether the classifier is complete now; always False for Lark grammars and for grammars without a
            classifier.

        Raises:
            BudgetExceeded: the states exceed the budget; the grammar continues as before.
        """
        self.completed(
            check_budget(budget), "all states were computed in advance, because promote was called"
        )
        return self.classifier is not None and not isinstance(self.grammar, LarkGrammar)

    def completed(self, budget: Budget, why: str, deadline: Deadline | None = None) -> bool:
        """`promote` for callers that have a deadline, and a reason to note. Returns whether this call has
        computed the states, and no other one before or meanwhile."""
        if self.classifier is None or isinstance(self.grammar, LarkGrammar):
            return False
        if self.deferred is not None:
            self._computed(self.deferred, deadline)
        if not promote_classifier(self.classifier, budget, deadline):
            return False
        self.note(why)
        return True

    @property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """The whole vocabulary as XGrammar describes it."""
        return self.vocabulary.tokenizer_info

    @property
    def classes(self) -> TokenClasses | None:
        """The token classes; None on strategy "engine". While masks still come from walks over the
        vocabulary, asking for the classes computes them, and gives None if that exceeds the budget."""
        if self.deferred is None:
            return self.found
        try:
            return self._computed(self.deferred)
        except BudgetExceeded:
            return None

    def _computed(self, deferred: DeferredClasses, deadline: Deadline | None = None) -> TokenClasses:
        """The deferred classes. Computes them if necessary; from then on the classifier uses them.

        Raises:
            BudgetExceeded: the classes exceed the budget, or the deadline has passed.
        """
        found = deferred.compute(deadline or deferred.deadline())
        self.note(f"classes have replaced the walks: {reason_of(found, self.vocabulary)}")
        return found

    @property
    def known_classes(self) -> TokenClasses | None:
        """The token classes, if they have been computed."""
        return self.found if self.deferred is None else self.deferred.found

    @cached_property
    def classless(self) -> int:
        """Number of ids without a class: special tokens, and text that the grammar never allows. 0 on
        "engine"."""
        return 0 if self.classes is None else int((self.classes.class_of_token < 0).sum())

    @property
    def relaxed(self) -> tuple[Relaxation, ...]:
        """The keywords of the JSON schema that masks do not enforce.

        With ``semantics="xgrammar"`` these are the keywords that XGrammar ignores or weakens; with
        ``semantics="json-schema"`` those that ``relax=True`` left out, and formats that cannot be checked, or
        not fully.

        Computed at the first access, which takes 60 us for most schemas and milliseconds for large ones.
        `hybrid.xgrammar.relaxed` says what an empty tuple guarantees. For grammars that are not JSON schemas
        the tuple is empty and guarantees nothing.
        """
        return self._differences.relaxed

    @property
    def narrowed(self) -> tuple[Narrowing, ...]:
        """The keywords of the JSON schema for which masks forbid some valid values.

        With ``semantics="xgrammar"`` there are many cases: strings of bounded length cannot contain escapes,
        patterns must match the whole text, `strict_mode` forbids undeclared keys, keys have a fixed order,
        and so on. With ``semantics="json-schema"`` the tuple is empty: every valid instance can be written,
        with its keys in the order that docs/json-schema.md describes, unless `strict_mode` forbids it or it
        contains a text beyond a limit of its format.
        Computed together with `relaxed`.
        """
        return self._differences.narrowed

    @cached_property
    def _differences(self) -> Differences:
        return differences_of(self.schema)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes that this compiled grammar holds, with its text and without the shared vocabulary."""
        later, size = self.__dict__, self.source_bytes
        part: Any
        for part in (self.classifier, self.gather, self.engine, later.get("_in_xgrammar")):
            if part is not None and not isinstance(part, str):
                size += int(part.memory_size_bytes)
        for part in (self.found, self.deferred, later.get("completions"), later.get("explainer")):
            if part is not None:
                size += int(part.nbytes)
        return size

    @property
    def fallback(self) -> CompiledGrammar:
        """The same grammar in plain XGrammar, compiled when a matcher first exceeds the budget, or reads an
        id as an id and as text at once (`hybrid.classifier.named_ids`).

        Raises:
            BudgetExceeded: it is a Lark grammar, or it could not be compiled, which is tried only once.
        """
        made = self._in_xgrammar
        if isinstance(made, str):
            raise BudgetExceeded(made)
        return made

    @cached_property
    def _in_xgrammar(self) -> CompiledGrammar | str:
        """`fallback`, or why there is none: otherwise each step of a matcher would try it again."""
        if self.budget is None or isinstance(self.grammar, LarkGrammar):
            return (
                "a matcher needs more memory than Budget.table_bytes, and a Lark grammar has no other "
                "strategy; raise Budget.table_bytes"
            )
        engines = Engines(self.vocabulary, 1, Guard(self.budget))
        try:
            grammar = in_xgrammar(self.grammar)
            serialized = read_grammar(grammar).whole()
            safe = as_changed(grammar, serialized, shield_root(serialized))
            engine = engines.whole(safe, Deadline(self.budget.seconds))
        except (BudgetExceeded, GrammarError) as error:
            return f"a matcher cannot continue in plain XGrammar: {error}"
        return CompiledGrammar(
            strategy="engine",
            reason="some matchers need more memory than Budget.table_bytes, or read a token both as text and "
            "as an id; they run in plain XGrammar",
            vocabulary=self.vocabulary, grammar=grammar, engine=engine, mask_seconds=self.mask_seconds,
            budget=self.budget,
        )  # fmt: skip

    @cached_property
    def may_force_endless_text(self) -> bool:
        """Whether XGrammar's search for forced text may not end, because some rule has no finite text, or a
        token id is named; False if the grammar cannot be read."""
        if isinstance(self.grammar, (LarkGrammar, SchemaGrammar)):
            return False
        try:
            return may_force_endless_text(read_grammar(self.grammar).whole())
        except GrammarError:
            return False

    @cached_property
    def may_be_slow(self) -> bool:
        """Whether XGrammar may need very long for one mask or token, because repeats in repeats or recursion
        may be ambiguous; also if the grammar cannot be read."""
        if isinstance(self.grammar, (LarkGrammar, SchemaGrammar)):
            return False
        try:
            read = read_grammar(self.grammar)
        except GrammarError:
            return True
        n_repeats = int((read.data[read.starts] == serial.REPEAT).sum())
        return n_repeats > 1 or ambiguous_calls(read) > 0

    @cached_property
    def completions(self) -> Completions:
        """Finds shortest completions of texts; see docs/completion.md.

        Raises:
            UnsupportedGrammar: matchers of this grammar must remember items or keys.
        """
        if self.places is not None:
            raise UnsupportedGrammar(
                "token limits are not supported for schemas whose items or keys must not be repeated "
                "(uniqueItems, minProperties and others); use masks without a token limit"
            )
        return Completions(self.grammar, self.vocabulary, self.budget or Budget())

    @cached_property
    def explainer(self) -> Explainer:
        """Describes places in texts in words; see docs/explain.md."""
        fixed = self.classifier.fixed if isinstance(self.classifier, FactoredClassifier) else None
        return Explainer(self.grammar, fixed, self.strategy != "engine")

    def __copy__(self) -> CompiledGrammar:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledGrammar:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a CompiledGrammar cannot be pickled: with strategy 'classifier', save(path) writes it "
            "and CompiledGrammar.load(path, vocabulary) reads it; with others, compile it again in "
            "the other process"
        )

    def __repr__(self) -> str:
        found = self.known_classes
        classes = "" if found is None else f", {found.n_classes} classes"
        return f"CompiledGrammar({self.strategy}{classes}, {self.vocabulary!r})"


def reason_of(classes: TokenClasses, vocabulary: Vocabulary) -> str:
    """The sentence about token classes in `CompiledGrammar.reason`."""
    word = "class" if classes.n_classes == 1 else "classes"
    return f"the {vocabulary.size} ids of the vocabulary form {classes.n_classes} token {word}"
