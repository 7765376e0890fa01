"""What a compile call asks for: a grammar in one of its notations, as one immutable value.

What: a `Request` for each notation that `GrammarCompiler` takes. It says what tells equal calls apart, how
the grammar is checked and parsed, and what is compiled of it; `hybrid.compile.pipeline` carries it through.
When: made by the methods of `GrammarCompiler`, for a call at once or in the background. A new notation is a
class here, its name in `METHODS`, and the method of the compiler that makes it. Those of JSON schemas are in
`schema_request.py`.
Limits: nothing is looked at before `settled`, so that errors belong to the call, also in the background.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import xgrammar

from equivalence import GrammarError, StrategyError, Vocabulary, forking
from equivalence.arguments import flag, shown
from equivalence.deadline import Deadline
from equivalence.network.reading import ReadGrammar
from hybrid.compile.strategy import Budget, OnBudget
from hybrid.lark.source import LarkGrammar
from hybrid.xgrammar.guard.estimate import Estimate, schema_estimate, text_estimate
from hybrid.xgrammar.messages import way_out
from hybrid.xgrammar.token_strings import with_token_ids

if TYPE_CHECKING:
    from hybrid.api.compiled import CompiledGrammar
    from hybrid.compile.compilation import Compilation
    from hybrid.xgrammar.guard import Guard

METHODS = {
    "grammar": "compile_grammar",
    "json_schema": "compile_json_schema",
    "regex": "compile_regex",
    "structural_tag": "compile_structural_tag",
    "builtin_json": "compile_builtin_json_grammar",
    "lark": "compile_lark",
}
"""Notations, and the methods of `GrammarCompiler` that compile them."""


SCHEMA_OPTIONS: dict[str, tuple[type | tuple[type, ...], Any]] = {
    "any_whitespace": (int, True), "indent": (int, None), "separators": ((list, tuple), None),
    "strict_mode": (int, True), "max_whitespace_cnt": (int, None), "print_converted_ebnf": (int, False),
    "any_order": (int, False),
}  # fmt: skip
"""Options of XGrammar's converter of schemas, in its order, with their types besides None and what they are
where they are not given; XGrammar says what is wrong with others."""


@forking.with_listed_properties
@dataclass(frozen=True)
class Settings:
    """What results depend on besides the grammar and the vocabulary; the same for all requests of a compiler.

    Attributes:
        strategy, budget, on_demand, on_budget, deterministic, n_jobs: as `hybrid.GrammarCompiler` has them.
        seconds: the budget's as it was given: a deterministic compiler has none in its budget.
        cache_dir: the folder that compiled grammars are kept in, "" where there is none.
    """

    strategy: str
    budget: Budget
    n_jobs: int = 1
    on_demand: bool = False
    on_budget: OnBudget = "engine"
    deterministic: bool = False
    seconds: float | None = None
    cache_dir: Any = ""

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, one.name) for one in fields(self)))

    def __hash__(self) -> int:
        return self._hash  # asked for with each call

    @property
    def walks(self) -> bool:
        """Whether first masks may be walked, and classes follow.

        Not where processes have to decide alike, as it is use that tells when classes follow.
        """
        return self.strategy == "auto" and not self.on_demand and not self.deterministic

    @property
    def portable(self) -> dict[str, Any]:
        """Those that matter to other processes too, as JSON has them."""
        return {
            "strategy": self.strategy, "on_demand": self.on_demand, "budget": repr(self.budget),
            "on_budget": self.on_budget, "deterministic": self.deterministic,
        }  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Request(ABC):
    """A grammar that is to be compiled.

    Attributes:
        settings: of the compiler.
        static: find all states of its classifier before it is returned.
    """

    settings: Settings
    static: bool = False

    notation: ClassVar[str]
    """Names it in keys, logs and messages."""

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        """This request, or the one that stands for it, checked: the one that has a key.

        Raises:
            HybridError: an argument that is not allowed.
        """
        static = flag(self.static, "static")
        return self if static is self.static else replace(self, static=static)

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What tells the requests of one compiler apart, the notation first."""

    @property
    def is_written_at_once(self) -> bool:
        """Whether its file, if there will be one, is written before the call returns: not where first masks
        are walked, as files have classes."""
        return not self.settings.walks

    @property
    def shared_key(self) -> tuple[Any, ...]:
        """What tells it apart from those of all compilers that share a memory."""
        return self.settings, self.key

    @abstractmethod
    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        """Compile it."""

    def check(self, compiled: CompiledGrammar, deadline: Deadline) -> None:  # noqa: B027 - most ask for no more
        """Refuse what was compiled, where more was asked for than that."""


class Parsed(Request):
    """A grammar that XGrammar parses or converts, then compiled as the strategy says."""

    title: ClassVar[str] = "grammar"
    """Names it in messages."""

    @abstractmethod
    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        """XGrammar's grammar."""

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        grammar, seconds = compilation.parse(self, deadline)
        return compilation.decide(grammar, seconds, deadline, self.read_printed)

    def read_printed(self, grammar: xgrammar.Grammar) -> ReadGrammar | None:
        """What was parsed, as XGrammar prints it; None where it is not known that this tells all of it."""
        return None


class Converted(Parsed):
    """A text that one of XGrammar's own functions turns into a grammar: here, or in another process."""

    @property
    def given(self) -> object:
        """What messages look for faults in, where it is a text."""
        return None

    @abstractmethod
    def estimate(self) -> Estimate | None:
        """What XGrammar may take for it; None where it will refuse the types."""

    @abstractmethod
    def here(self) -> xgrammar.Grammar:
        """Call XGrammar in this process."""

    @abstractmethod
    def elsewhere(self) -> tuple[str, list[Any]]:
        """The function of XGrammar's library that is to be called in another process, and its arguments."""

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        return self.converted(guard, deadline)

    def converted(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        """`Guard.convert`, with errors that say what to do."""
        try:
            return guard.convert(self, deadline)
        except (GrammarError, RuntimeError, TypeError) as error:
            told = way_out(str(error), self.title, self.given, SCHEMA_OPTIONS)
            if told is None:
                raise
            raise GrammarError(f"XGrammar refuses the {self.title}: {told}") from error


@dataclass(frozen=True, eq=False)
class GrammarRequest(Parsed):
    """What XGrammar has parsed already; `text` is its serialised form, once it is settled."""

    notation: ClassVar[str] = "grammar"
    grammar: xgrammar.Grammar
    text: str = ""

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        settled = replace(self, text=self.grammar.serialize_json())
        return Request.settled(settled, compilation, deadline)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.notation, self.text

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        return self.grammar


@dataclass(frozen=True, eq=False)
class EbnfRequest(Converted):
    """A text of rules."""

    notation: ClassVar[str] = "ebnf"
    title: ClassVar[str] = "grammar"
    text: str
    root_rule_name: str = "root"

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        _check_text(self.text, "the grammar", "text or an xgrammar.Grammar")
        _check_text(self.root_rule_name, "root_rule_name")
        return super().settled(compilation, deadline)

    @property
    def given(self) -> object:
        return self.text

    @property
    def key(self) -> tuple[Any, ...]:
        return self.notation, self.text, self.root_rule_name

    def estimate(self) -> Estimate:
        return text_estimate(self.text)

    def here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_ebnf(self.text, root_rule_name=self.root_rule_name)

    def elsewhere(self) -> tuple[str, list[Any]]:
        return "from_ebnf", [self.text, self.root_rule_name]


@dataclass(frozen=True, eq=False)
class RegexRequest(Converted):
    """A regular expression."""

    notation: ClassVar[str] = "regex"
    title: ClassVar[str] = "regex"
    text: str

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        _check_text(self.text, "the regular expression")
        return super().settled(compilation, deadline)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.notation, self.text

    def estimate(self) -> Estimate:
        return text_estimate(self.text)

    def here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_regex(self.text)

    def elsewhere(self) -> tuple[str, list[Any]]:
        return "from_regex", [self.text, False]


@dataclass(frozen=True, eq=False)
class BuiltinJsonRequest(Parsed):
    """All JSON."""

    notation: ClassVar[str] = "builtin_json"

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.notation,)

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        return xgrammar.Grammar.builtin_json_grammar()


@dataclass(frozen=True, eq=False)
class StructuralTagRequest(Converted):
    """A structural tag, or the older pair of tags and triggers.

    Attributes:
        arguments: as they were given.
        vocabulary: that its strings for tokens are looked for in.
    """

    notation: ClassVar[str] = "structural_tag"
    title: ClassVar[str] = "structural tag"
    arguments: tuple[Any, ...]
    vocabulary: Vocabulary | None = None

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        grammar, _ = compilation.parse(replace(self, vocabulary=compilation.vocabulary), deadline)
        # a tag may hold model classes, which only the grammar made of them tells apart
        request = GrammarRequest(grammar, settings=self.settings, static=self.static)
        return request.settled(compilation, deadline)

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        text = self._text()
        if self.vocabulary is not None:
            text = with_token_ids(text, self.vocabulary)
        return replace(self, arguments=(text,)).converted(guard, deadline)

    @property
    def given(self) -> object:
        return self.arguments[0]

    def _text(self) -> Any:
        """The tag as JSON text; what is none of its forms comes back as it is, for XGrammar to refuse."""
        tag = self.arguments[0]
        if len(self.arguments) > 1:
            tag = xgrammar.StructuralTag.from_legacy_structural_tag(*self.arguments)
        if isinstance(tag, dict):
            return json.dumps(tag)
        if isinstance(tag, xgrammar.StructuralTag):
            return tag.model_dump_json()
        return tag

    def estimate(self) -> Estimate | None:
        tag = self.arguments[0]
        return schema_estimate(tag, {}) if isinstance(tag, str) else None

    def here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_structural_tag(self.arguments[0])

    def elsewhere(self) -> tuple[str, list[Any]]:
        return "from_structural_tag", list(self.arguments)

    @property
    def key(self) -> tuple[Any, ...]:
        raise NotImplementedError("the grammar that it is settled to has one")


@dataclass(frozen=True, eq=False)
class LarkRequest(Request):
    """A grammar in Lark's notation."""

    notation: ClassVar[str] = "lark"
    text: str
    start: str = "start"

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        strategy = self.settings.strategy
        if strategy not in ("auto", "classifier"):
            raise StrategyError(
                f"strategy is {strategy!r}, which runs in XGrammar and has no lexer; allowed for Lark "
                "grammars are 'auto' and 'classifier' (or compile_grammar(xgrammar.Grammar.from_lark(text)))"
            )
        _check_text(self.text, "the grammar")
        _check_text(self.start, "start")
        return self

    @property
    def key(self) -> tuple[Any, ...]:
        return self.notation, self.text, self.start

    @property
    def is_written_at_once(self) -> bool:
        return True

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        return compilation.on_lark(LarkGrammar(self.text, self.start), deadline)


def require(given: Any, allowed: type | tuple[type, ...], name: str) -> None:
    """Refuse what XGrammar would: its own error takes a second the first time."""
    if not isinstance(given, allowed):
        names = " and ".join(one.__name__ for one in (allowed if isinstance(allowed, tuple) else (allowed,)))
        raise GrammarError(f"{name} is of type {type(given).__name__}, allowed is {names}")


def _check_text(value: object, name: str, allowed: str = "text") -> None:
    """Raise `GrammarError` for what is no text: it might not even tell calls apart."""
    if not isinstance(value, str):
        raise GrammarError(f"{name} is {shown(value)}, allowed is {allowed}")
