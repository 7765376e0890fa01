"""A compiled grammar: what was decided for it, and everything that its matchers share.

What: `CompiledGrammar`, and a variant of it for each way in which grammars run. Immutable, so that a copy is
the grammar itself; one serves any number of matchers, in any number of threads.
When: made by `GrammarCompiler`, or read from a file that `save` wrote.
Limits: only strategy "classifier" is written to files (docs/artifacts.md).
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
    forking,
)
from equivalence.arguments import path_of
from equivalence.classes.byte_strings import Features
from equivalence.deadline import Deadline
from equivalence.network.reading import read_as_far
from hybrid.classifier.classifier import Classifier
from hybrid.compile.settling import Settling
from hybrid.compile.strategy import Budget, check_budget
from hybrid.completion import Completions
from hybrid.explain import Wording
from hybrid.json_schema import Places, SchemaGrammar, in_xgrammar
from hybrid.lark import FactoredClassifier, LarkGrammar
from hybrid.representatives.gather import Gather
from hybrid.representatives.handover import Rival
from hybrid.xgrammar.relaxed import Differences, Narrowing, Relaxation, SchemaText, differences_of
from hybrid.xgrammar.sanitize import has_texts_without_end

_noting = forking.listed(threading.Lock(), forking.Order.BRIEF)
"""Of the reasons of all grammars, which is what changes of them; see `CompiledGrammar.note`."""


@forking.with_listed_properties
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CompiledGrammar:
    """A grammar ready for matchers: one of `OnWalks`, `OnClassifier`, `OnLark`, `OnRepresentatives` and
    `OnEngine`.

    Attributes:
        strategy: what was chosen: "classifier", "representatives" or "engine".
        reason: one sentence: why; and what became of it since (`note`).
        vocabulary: the vocabulary that masks are over.
        grammar: the grammar, as XGrammar parsed it, as the schema means it, or the text of a Lark grammar.
        classes: its token classes; None on strategy "engine". Where masks are walked as yet, they are found
            when they are first asked for; None then if that is more than the budget allows.
        engine: XGrammar's compiled grammar: on "representatives" over one token per class, in the order of
            classes, then their missing prefixes, then a stop token; on "engine" over the whole vocabulary;
            None on "classifier".
        engine_stop: the id of the stop token among the representatives; -1 on other strategies.
        gather: expands class masks; None on other strategies.
        features: what the grammar asks of tokens besides bytes; None on strategy "engine".
        classifier: what decides on strategy "classifier"; None on others.
        otherwise: makes the same grammar on another strategy, for matchers that the classifier cannot go on
            with; None where there is no other: a Lark grammar has only this one.
        timings: seconds by phase: "network", "explore", "partition" (these three are the classes; or
            "automata", "strings" where they are classes of byte strings), "gather", "compile" (XGrammar's),
            "total"; "load" where it was read from a file.
        schema: the JSON schema that the grammar was made of; None for grammars in other notations.
        rival: plain XGrammar, for matchers on "representatives" that are slower; None where there is none.
        mask_seconds: bound of one mask, see `Budget`.
        places: where matchers remember items or keys that may not come twice; None: nowhere.
    """

    strategy: str = field(default="", init=False)
    reason: str
    vocabulary: Vocabulary
    grammar: xgrammar.Grammar | LarkGrammar | SchemaGrammar
    timings: dict[str, float] = field(default_factory=dict)
    schema: SchemaText | None = None
    mask_seconds: float | None = None
    places: Places | None = None

    # what only some of the variants have, which name it again
    engine: xgrammar.CompiledGrammar | None = field(default=None, init=False)
    engine_stop: int = field(default=-1, init=False)
    classes: TokenClasses | None = field(default=None, init=False)
    gather: Gather | None = field(default=None, init=False)
    features: Features | None = field(default=None, init=False)
    classifier: Classifier | None = field(default=None, init=False)
    otherwise: Callable[[], CompiledGrammar] | None = field(default=None, init=False)
    rival: Rival | None = field(default=None, init=False)

    awaited: ClassVar[Any] = None
    """Told how long the first mask took; of one grammar, until it was asked for a mask."""

    def await_first_mask(self, told: Callable[[float], object]) -> None:
        """Have the seconds of the first mask that anybody asks for told, once."""
        self.__dict__["awaited"] = told  # no field: it goes into no file and no copy

    def first_mask_took(self, seconds: float) -> None:
        """Tell it, if it was not told yet; called by followers, who look at `awaited` before."""
        told = self.__dict__.pop("awaited", None)
        if told is not None:
            told(seconds)

    def note(self, what: str) -> None:
        """Add to the reason what became of the grammar, once: nothing else of it ever changes."""
        with _noting:
            if what not in self.reason:
                object.__setattr__(self, "reason", f"{self.reason}; {what}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this compiled grammar, but not the vocabulary, to a file, which appears whole or not at all.

        Raises:
            StrategyError: the strategy is not "classifier"; the message says how to get one that is.
            OSError: the file cannot be written.
        """
        from hybrid import files  # which makes compiled grammars

        files.save(self, path_of(path, "path", ArtifactError))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], vocabulary: Vocabulary, *, budget: Budget = Budget()
    ) -> CompiledGrammar:
        """Read a compiled grammar that `save` wrote, in milliseconds; its masks are those of the one saved.

        Args:
            path: the file; it should come from those who may change the program too.
            vocabulary: the vocabulary that the grammar was compiled for.
            budget: bounds of the tables, and of compiling again where matchers outgrow them.

        Raises:
            ArtifactError: no such file, a damaged one, or one of another version or vocabulary.
        """
        from hybrid import files

        return files.load(path_of(path, "path", ArtifactError), vocabulary, budget=budget)

    def promote(self, *, budget: Budget = Budget()) -> bool:
        """Find now, in this call, all that texts could ask the classifier for; masks stay what they are.

        What "auto" does by itself in the background where it pays; sequences under way go on.

        Args:
            budget: bounds of the tables.

        Returns:
            Whether nothing is left to be found on demand: always False for Lark grammars, and for those that
            have no classifier.

        Raises:
            BudgetExceeded: it would be more than the budget allows; the grammar goes on as before.
        """
        from hybrid.compile.promotion import promoted

        return promoted(self, check_budget(budget), "promoted by its caller")

    @property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """The whole vocabulary as XGrammar describes it."""
        return self.vocabulary.tokenizer_info

    @property
    def known_classes(self) -> TokenClasses | None:
        """The token classes, if they are known already."""
        return self.classes

    @cached_property
    def classless(self) -> int:
        """Number of ids without a class: special, or text that the grammar never allows; 0 on "engine"."""
        return 0 if self.classes is None else int((self.classes.class_of_token < 0).sum())

    @property
    def relaxed(self) -> tuple[Relaxation, ...]:
        """The keywords of the JSON schema that masks do not enforce.

        With XGrammar's meaning, those that it ignores or weakens; with JSON Schema's own, those that were
        left out on request (``relax=True``).

        Found when first asked for (60 us for most schemas, milliseconds for large ones);
        `hybrid.xgrammar.relaxed` says what an empty tuple promises. Where `schema` is None, for other kinds
        of grammars, it is empty and promises nothing.
        """
        return self._differences.relaxed

    @property
    def narrowed(self) -> tuple[Narrowing, ...]:
        """The keywords of the JSON schema under which masks forbid values that are valid.

        With XGrammar's meaning: no escape can be written in strings of a bounded length, patterns have to
        match whole texts, `strict_mode` forbids what is not declared, keys have one order, and so on. With
        JSON Schema's own it is empty: all valid instances can be written, in the order of keys that
        docs/json-schema.md describes, and but for what `strict_mode` forbids. Found together with `relaxed`.
        """
        return self._differences.narrowed

    @cached_property
    def _differences(self) -> Differences:
        return differences_of(self.schema)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held by this compiled grammar, the shared vocabulary left out."""
        raise NotImplementedError

    @cached_property
    def fallback(self) -> CompiledGrammar:
        """The same grammar on another strategy; made when a matcher first outgrows the budget, or reads an id
        both ways (`hybrid.classifier.token_ids`).

        Raises:
            BudgetExceeded: there is no other strategy for it.
        """
        if self.otherwise is None:
            raise BudgetExceeded(
                "a matcher needs more than the budget's table_bytes, and a Lark grammar has no other "
                "strategy; raise Budget.table_bytes"
            )
        made = self.otherwise()
        self.note(f"matchers went on in {made.strategy!r}")
        return made

    @cached_property
    def has_texts_without_end(self) -> bool:
        """Whether some rule has no text that ends; False where the grammar's layout is not read."""
        if isinstance(self.grammar, (LarkGrammar, SchemaGrammar)):
            return False
        try:
            return has_texts_without_end(read_as_far(self.grammar).whole())
        except GrammarError:
            return False

    @cached_property
    def completions(self) -> Completions:
        """What finds the shortest completions of its texts; see docs/completion.md.

        Raises:
            UnsupportedGrammar: matchers remember items or keys.
        """
        if self.places is not None:
            raise UnsupportedGrammar(
                "the schema has items or keys that may not come twice: its shortest completion is not known; "
                "use masks without a limit of tokens"
            )
        return Completions(self.grammar, self.vocabulary)  # of a schema's grammar it takes what was read

    @cached_property
    def wording(self) -> Wording:
        """What finds words for places of its texts; see docs/explain.md."""
        fixed = self.classifier.fixed if isinstance(self.classifier, FactoredClassifier) else None
        grammar = self.grammar if isinstance(self.grammar, LarkGrammar) else in_xgrammar(self.grammar)
        has_names = not isinstance(self.grammar, SchemaGrammar)
        return Wording(grammar, fixed, self.strategy != "engine", has_names)

    @property
    def completion_bytes(self) -> int:
        """Bytes held by `completions`, if anybody asked for them."""
        made: Completions | None = self.__dict__.get("completions")
        return 0 if made is None else made.nbytes

    def __copy__(self) -> CompiledGrammar:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledGrammar:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a CompiledGrammar cannot be pickled: save(path) writes one of strategy 'classifier' and "
            "CompiledGrammar.load(path, vocabulary) reads it; another process compiles others again"
        )

    def __repr__(self) -> str:
        found = self.known_classes
        classes = "" if found is None else f", {found.n_classes} classes"
        return f"CompiledGrammar({self.strategy}{classes}, {self.vocabulary!r})"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OnEngine(CompiledGrammar):
    """A grammar that XGrammar runs over the whole vocabulary."""

    strategy: str = field(default="engine", init=False)
    engine: xgrammar.CompiledGrammar = field()

    @property
    def memory_size_bytes(self) -> int:
        return int(self.engine.memory_size_bytes) + self.completion_bytes


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OnRepresentatives(CompiledGrammar):
    """A grammar that XGrammar runs over one token for each class."""

    strategy: str = field(default="representatives", init=False)
    engine: xgrammar.CompiledGrammar = field()
    engine_stop: int = field()
    classes: TokenClasses = field()
    gather: Gather = field()
    features: Features = field()
    rival: Rival | None = field()

    @property
    def memory_size_bytes(self) -> int:
        size = int(self.engine.memory_size_bytes) + self.classes.nbytes + self.gather.memory_size_bytes
        size += self.completion_bytes
        return size if self.rival is None else size + self.rival.memory_size_bytes


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OnClassifier(CompiledGrammar):
    """A grammar whose parser stack is classified; no engine runs."""

    strategy: str = field(default="classifier", init=False)
    grammar: xgrammar.Grammar | SchemaGrammar
    classes: TokenClasses = field()
    features: Features | None = field()
    classifier: Classifier = field()
    otherwise: Callable[[], CompiledGrammar] = field()

    @property
    def memory_size_bytes(self) -> int:
        return self.classifier.memory_size_bytes + self.classes.nbytes + self.completion_bytes


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OnWalks(CompiledGrammar):
    """A grammar whose masks are walked over the vocabulary, until classes pay or are asked for."""

    strategy: str = field(default="classifier", init=False)
    grammar: xgrammar.Grammar | SchemaGrammar
    features: Features | None = field()
    classifier: Classifier = field()
    otherwise: Callable[[], CompiledGrammar] = field()
    settling: Settling = field()

    def settle(self, deadline: Deadline) -> TokenClasses:
        """The classes, found now if they were not before; the classifier goes on with them.

        Raises:
            BudgetExceeded: they are more than the budget allows, or it is too late.
        """
        found = self.settling.settle(deadline)
        self.note(reason_of(found, self.vocabulary))
        return found

    @property  # type: ignore[misc]  # of this variant it is no field
    def classes(self) -> TokenClasses | None:
        try:
            return self.settle(self.settling.deadline())
        except BudgetExceeded:
            return None

    @property
    def known_classes(self) -> TokenClasses | None:
        return self.settling.found

    @property
    def memory_size_bytes(self) -> int:
        return self.classifier.memory_size_bytes + self.settling.nbytes + self.completion_bytes


Classified = (OnClassifier, OnWalks)
"""The variants with a classifier of a grammar of XGrammar's."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OnLark(CompiledGrammar):
    """A grammar in Lark's notation, whose lexer and parser stack are classified."""

    strategy: str = field(default="classifier", init=False)
    grammar: LarkGrammar
    classes: TokenClasses = field()
    classifier: FactoredClassifier = field()

    @property
    def memory_size_bytes(self) -> int:
        return self.classifier.memory_size_bytes + self.classes.nbytes


def reason_of(classes: TokenClasses, vocabulary: Vocabulary) -> str:
    """What classes say of themselves in a reason."""
    if classes.method == "explored":
        return f"{classes.n_classes} token classes stand for {vocabulary.size} ids"
    return f"{classes.n_classes} classes by {classes.method} stand for {vocabulary.size} ids: {classes.cause}"
