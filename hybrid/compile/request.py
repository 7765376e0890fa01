"""Compile requests: the grammar and the options of one compile call, as an immutable value.

What: a subclass of `Request` for each notation that `GrammarCompiler` accepts. It has the key that identifies
equal calls, checks and parses the grammar, and compiles it. `hybrid.compile.pipeline` runs requests.
When: the methods of `GrammarCompiler` make requests, for calls now or in the background. A new notation needs
a subclass, an entry in `METHODS`, and a method of the compiler. JSON schemas: see `schema_request.py`,
structural tags: `tag_request.py`.
Limits: arguments are checked by `normalised`, not before, so that errors of background calls are raised by
their futures.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import xgrammar

from equivalence import ArgumentError, BudgetExceeded, GrammarError, HybridError, StrategyError, Vocabulary
from equivalence.arguments import flag, shown
from equivalence.deadline import Deadline
from equivalence.network.grammar_reader import ParsedGrammar, read_serialised
from hybrid.compile.compilation import Compilation
from hybrid.compile.settings import Settings
from hybrid.compiled import CompiledGrammar
from hybrid.guard import Guard
from hybrid.guard.estimate import Estimate, text_estimate
from hybrid.lark.source import LarkGrammar
from hybrid.xgrammar.messages import check_memory, said, shortened, way_out

METHODS = {
    "grammar": "compile_grammar",
    "json_schema": "compile_json_schema",
    "regex": "compile_regex",
    "structural_tag": "compile_structural_tag",
    "builtin_json": "compile_builtin_json_grammar",
    "lark": "compile_lark",
}
"""The notations, with the methods of `GrammarCompiler` that compile them."""

SCHEMA_OPTIONS: dict[str, tuple[type | tuple[type, ...], Any]] = {
    "any_whitespace": ((bool, int), True), "indent": (int, None), "separators": ((list, tuple), None),
    "strict_mode": ((bool, int), True), "max_whitespace_cnt": (int, None),
    "print_converted_ebnf": ((bool, int), False), "any_order": ((bool, int), False),
}  # fmt: skip
"""The options of XGrammar's converter of schemas, in its order, with their types (None is always allowed) and
defaults. XGrammar itself reports other options."""

REFUSALS = RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError
"""What XGrammar raises if it refuses something."""

R = TypeVar("R", bound="Request")


@dataclass(frozen=True, eq=False, kw_only=True)
class Request(ABC):
    """One compile call.

    Attributes:
        settings: the compiler's settings.
        static: whether to compute all states of the classifier before returning.
    """

    settings: Settings
    static: bool = False

    notation: ClassVar[str]
    """The notation's name in keys, logs and messages."""

    identity: ClassVar[tuple[str, ...]] = ()
    """The fields that tell requests of a notation apart, besides the settings."""

    def normalised(self: R, vocabulary: Vocabulary) -> R:
        """Check this request. Return it, or an equal one in normal form. Only the result has a key.

        Raises:
            HybridError: an argument is not allowed.
        """
        return self.changed(**self.checked(vocabulary), static=flag(self.static, "static"))

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """Check the fields of this notation. Return those that have another value in normal form."""
        return {}

    def changed(self: R, **fields: Any) -> R:
        """This request with other values of some fields; itself if it has these values already."""
        for name, value in fields.items():
            if getattr(self, name) is not value:
                return replace(self, **fields)
        return self

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies equal requests of one compiler. The notation comes first."""
        return self.notation, *(getattr(self, name) for name in self.identity)

    @property
    def has_classes(self) -> bool:
        """Whether the grammar has token classes as soon as it is compiled. If not, masks come from walks."""
        return not self.settings.walks

    @property
    def has_file(self) -> bool:
        """Whether the grammar is kept in the folder.

        Files contain classes. Reading one takes 2 to 4 times as long as compiling a schema whose masks come
        from walks (medians for 150 schemas of MaskBench, both semantics), and longer for 97% of the schemas.
        """
        return self.static or self.has_classes

    @abstractmethod
    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        """Compile the request."""

    def check(self, compiled: CompiledGrammar, deadline: Deadline) -> None:  # noqa: B027 - most have nothing to check
        """Raise an error if the compiled grammar is not what the caller requires."""


class Parsed(Request):
    """A grammar that XGrammar parses or converts."""

    title: ClassVar[str] = "grammar"
    """The notation's name in messages."""

    @abstractmethod
    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        """XGrammar's grammar."""

    def advice(self, error: Exception) -> str | None:
        """What to do about an error of `parse`, if that is known."""
        return None

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        deadline.check(f"waiting for XGrammar's parser of the {self.title}")
        began = time.perf_counter()
        try:
            grammar = self.parse(compilation.guard, deadline)
        except BudgetExceeded:
            raise
        except REFUSALS as error:
            check_memory(error)
            told = self.advice(error)
            if told is None and isinstance(error, HybridError):
                raise
            raise GrammarError(f"XGrammar refuses the {self.title}: {told or shortened(error)}") from error
        deadline.check(f"XGrammar's parser of the {self.title}")
        return compilation.decide(grammar, time.perf_counter() - began, deadline, self.read_text)

    def read_text(self, grammar: xgrammar.Grammar) -> ParsedGrammar | None:
        """Read the grammar from a text that takes less time to make than its serialised form; None: there is
        none."""
        return None


class Converted(Parsed):
    """A text that XGrammar converts to a grammar, in this process or in another one."""

    @abstractmethod
    def estimate(self) -> Estimate | None:
        """What XGrammar may need for the conversion; None if it will refuse the arguments' types."""

    @abstractmethod
    def convert_here(self) -> xgrammar.Grammar:
        """Convert in this process."""

    @abstractmethod
    def remote_call(self) -> tuple[str, list[Any]]:
        """The function of XGrammar's library to call in another process, and its arguments."""

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        return guard.convert(self, deadline)

    def advice(self, error: Exception) -> str | None:
        return way_out(said(error), self.title, self.remote_call()[1][0], SCHEMA_OPTIONS)


@dataclass(frozen=True, eq=False)
class GrammarRequest(Parsed):
    """A grammar that XGrammar has parsed already. `normalised` sets `text` to its serialised form."""

    notation: ClassVar[str] = "grammar"
    identity: ClassVar[tuple[str, ...]] = ("text",)
    grammar: xgrammar.Grammar
    text: str = ""

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        return {"text": self.grammar.serialize_json()}

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        return self.grammar

    def read_text(self, grammar: xgrammar.Grammar) -> ParsedGrammar | None:
        return read_serialised(self.text)


@dataclass(frozen=True, eq=False)
class EbnfRequest(Converted):
    """A grammar in EBNF."""

    notation: ClassVar[str] = "ebnf"
    identity: ClassVar[tuple[str, ...]] = ("text", "root_rule_name")
    text: str
    root_rule_name: str = "root"

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        check_text(self.text, "the grammar", "text or an xgrammar.Grammar")
        check_text(self.root_rule_name, "root_rule_name")
        return {}

    def estimate(self) -> Estimate:
        return text_estimate(self.text)

    def convert_here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_ebnf(self.text, root_rule_name=self.root_rule_name)

    def remote_call(self) -> tuple[str, list[Any]]:
        return "from_ebnf", [self.text, self.root_rule_name]


@dataclass(frozen=True, eq=False)
class RegexRequest(Converted):
    """A regular expression."""

    notation: ClassVar[str] = "regex"
    title: ClassVar[str] = "regex"
    identity: ClassVar[tuple[str, ...]] = ("text",)
    text: str

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        check_text(self.text, "the regular expression")
        return {}

    def estimate(self) -> Estimate:
        return text_estimate(self.text)

    def convert_here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_regex(self.text)

    def remote_call(self) -> tuple[str, list[Any]]:
        return "from_regex", [self.text, False]


@dataclass(frozen=True, eq=False)
class BuiltinJsonRequest(Parsed):
    """XGrammar's built-in grammar of JSON."""

    notation: ClassVar[str] = "builtin_json"

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        return xgrammar.Grammar.builtin_json_grammar()


@dataclass(frozen=True, eq=False)
class LarkRequest(Request):
    """A grammar in Lark's notation."""

    notation: ClassVar[str] = "lark"
    identity: ClassVar[tuple[str, ...]] = ("text", "start")
    text: str
    start: str = "start"

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        strategy = self.settings.strategy
        if strategy not in ("auto", "classifier"):
            raise StrategyError(
                f"Lark grammars need strategy 'auto' or 'classifier', but it is {strategy!r}, which "
                "runs in XGrammar and has no lexer; use one of them, or "
                "compile_grammar(xgrammar.Grammar.from_lark(text))"
            )
        check_text(self.text, "the grammar")
        check_text(self.start, "start")
        return {}

    @property
    def has_classes(self) -> bool:
        return True

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        return compilation.on_lark(LarkGrammar(self.text, self.start), deadline)


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options of schemas of a wrong type before XGrammar does: its own error takes a second the first
    time. Unknown options are left to it."""
    for name, value in options.items():
        allowed = SCHEMA_OPTIONS[name][0] if name in SCHEMA_OPTIONS else object
        if value is not None and not isinstance(value, allowed):
            types = allowed if isinstance(allowed, tuple) else (allowed,)
            names = " or ".join(one.__name__ for one in types)
            raise ArgumentError(f"the option {name} must be of type {names}, but is {shown(value)}")


def check_text(value: object, name: str, allowed: str = "text") -> None:
    """Raise `GrammarError` if a value is not text: it might not even be usable as a key."""
    if not isinstance(value, str):
        raise GrammarError(f"{name} must be {allowed}, but is {shown(value)}")
