"""What a compile call asks for: a grammar in one of its notations, as one immutable value.

What: a `Request` for each notation that `GrammarCompiler` takes. It says what tells equal calls apart, how
the grammar is checked and parsed, and what is compiled of it; `hybrid.compile.pipeline` carries it through.
When: made by the methods of `GrammarCompiler`, for a call at once or in the background. A new notation is a
class here, its name in `METHODS`, and the method of the compiler that makes it.
Limits: nothing is looked at before `settled`, so that errors belong to the call, also in the background.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import xgrammar

from equivalence import GrammarError, StrategyError, Vocabulary, forking
from equivalence.arguments import flag, shown
from equivalence.deadline import Deadline
from equivalence.network.reading import ReadGrammar, read_printed
from hybrid.compile.strategy import Budget, OnBudget
from hybrid.json_schema import Bounds, SchemaGrammar, documents_of, grammar_of_schema
from hybrid.lark.source import LarkGrammar
from hybrid.xgrammar.guard.estimate import Estimate, schema_estimate, text_estimate
from hybrid.xgrammar.messages import way_out
from hybrid.xgrammar.relaxed import Relaxation, SchemaText, describe, schema_text
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

_MAY_LEAD = re.compile(r'(?<![^\\]["\[])\^|\\\]|\[\^\]')
"""What a schema may spell a character class with whose first character is a caret: one that does not begin a
text or exclude what follows, or what lets such a class hold a bracket, as what is left of all characters but
those up to the bracket begins with a caret."""

_MAY_BE_ZERO = re.compile(r"\\(?:u00[0-7]|u\{|[UxXcCoO0])")
"""What a schema spells a byte 0 with, in JSON or in a regular expression, or one of the letters, digits and
signs of that."""


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
class JsonSchemaRequest(Converted):
    """A JSON schema.

    Attributes:
        schema: as it was given; once it is settled, text or a model class.
        options: of XGrammar's converter.
        strict: refuse it if XGrammar leaves something out of it.
    """

    notation: ClassVar[str] = "json_schema"
    title: ClassVar[str] = "JSON schema"
    schema: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        schema, strict = _schema_of(self.schema), flag(self.strict, "strict")
        is_settled = schema is self.schema and strict is self.strict
        settled = self if is_settled else replace(self, schema=schema, strict=strict)
        return Request.settled(settled, compilation, deadline)

    @property
    def key(self) -> tuple[Any, ...]:
        options = tuple(sorted((name, repr(value)) for name, value in self.options.items()))
        return self.notation, self.schema, options

    @cached_property
    def text(self) -> SchemaText:
        """The schema's text, with the options that say what XGrammar leaves out."""
        return schema_text(self.schema, self.options)

    def estimate(self) -> Estimate | None:
        for name, value in self.options.items():
            if name in SCHEMA_OPTIONS and value is not None:
                _require(value, SCHEMA_OPTIONS[name][0], f"the option {name}")
        is_known = SCHEMA_OPTIONS.keys() >= self.options.keys()
        return schema_estimate(self.schema, self.options) if is_known else None

    def parse(self, guard: Guard, deadline: Deadline) -> xgrammar.Grammar:
        text = self.text.text  # a model class is asked once
        asked = self if text is self.schema else replace(self, schema=text)
        return asked.converted(guard, deadline)

    @property
    def given(self) -> object:
        return self.schema

    def here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_json_schema(self.schema, **self.options)

    def elsewhere(self) -> tuple[str, list[Any]]:
        options = [self.options.get(name, absent) for name, (_, absent) in SCHEMA_OPTIONS.items()]
        return "from_json_schema", [self.schema, *options]

    def read_printed(self, grammar: xgrammar.Grammar) -> ReadGrammar | None:
        # not where texts may hold a byte 0, behind which they are not printed
        text = self.text.text
        if self.options.get("separators") is not None or "\0" in text:
            return None
        if "\\" in text and _MAY_BE_ZERO.search(text):
            return None
        return read_printed(grammar, "^" in text and _MAY_LEAD.search(text) is not None)

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        compiled = super().compiled(compilation, deadline)
        # before anybody else sees it: the folder on disk keeps the schema too
        object.__setattr__(compiled, "schema", self.text)
        return compiled

    def check(self, compiled: CompiledGrammar, deadline: Deadline) -> None:
        if self.strict:
            deadline.check("looking for keywords that XGrammar leaves out")
            if compiled.relaxed:
                raise GrammarError(describe(compiled.relaxed))


@dataclass(frozen=True, eq=False)
class ExactSchemaRequest(Request):
    """A JSON schema with its own meaning (`hybrid.json_schema`).

    Attributes:
        schema: as it was given; once it is settled, text.
        options: XGrammar's, which say how texts are laid out, and `strict_mode`.
        strict: refuse it if something was left out of it.
        relax: leave out what cannot be kept, by name, in place of refusing it.
        assert_formats: read `format` as an assertion; else it is an annotation.
        registry: documents that references may lead to, of `referencing`; once it is settled,
            `hybrid.json_schema.Documents`.
    """

    notation: ClassVar[str] = "json_schema"
    schema: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    relax: bool = False
    assert_formats: bool = True
    registry: Any = None

    def settled(self, compilation: Compilation, deadline: Deadline) -> Request:
        for name, value in self.options.items():
            if name not in SCHEMA_OPTIONS:
                allowed = ", ".join(SCHEMA_OPTIONS)
                raise GrammarError(f"the option {name!r} is not known, allowed are {allowed}")
            if value is not None:
                _require(value, SCHEMA_OPTIONS[name][0], f"the option {name}")
        text = schema_text(_schema_of(self.schema), self.options).text  # a model class is asked once
        strict, relax = flag(self.strict, "strict"), flag(self.relax, "relax")
        formats, documents = flag(self.assert_formats, "assert_formats"), documents_of(self.registry)
        settled = replace(
            self, schema=text, strict=strict, relax=relax, assert_formats=formats, registry=documents
        )
        return Request.settled(settled, compilation, deadline)

    @property
    def key(self) -> tuple[Any, ...]:
        options = tuple(sorted((name, repr(value)) for name, value in self.options.items()))
        beside = None if self.registry is None else self.registry.digest
        return self.notation, "json-schema", self.relax, self.assert_formats, beside, self.schema, options

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        began = time.perf_counter()
        grammar = grammar_of_schema(
            self.schema, self.options, bounds=self._bounds, deadline=deadline, relax=self.relax,
            convert=partial(self._converted, compilation.guard), assert_formats=self.assert_formats,
            documents=self.registry,
        )  # fmt: skip
        compiled = compilation.decide(grammar, time.perf_counter() - began, deadline, _own_reading)
        grammar.forget()
        left_out = tuple(Relaxation(one.pointer, one.keyword, one.why) for one in grammar.left_out)
        schema = schema_text(self.schema, self.options)._replace(left_out=left_out)
        return replace(compiled, schema=schema, places=grammar.places)

    @property
    def _bounds(self) -> Bounds:
        """The bounds that the budget implies."""
        states = self.settings.budget.states
        return Bounds(nonterminals=max(states // 6, 1), language_states=max(states // 10, 1))

    def _converted(self, guard: Guard, text: str) -> xgrammar.Grammar:
        """The grammar in XGrammar, for the strategies that run there."""
        request = EbnfRequest(text, settings=self.settings)
        return guard.convert(request, Deadline(self.settings.seconds))

    def check(self, compiled: CompiledGrammar, deadline: Deadline) -> None:
        if self.strict and compiled.relaxed:
            raise GrammarError(describe(compiled.relaxed, is_own=True))


def _own_reading(grammar: SchemaGrammar) -> ReadGrammar:
    """What the network reads of a schema's grammar."""
    return grammar.read


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


def _schema_of(schema: Any) -> str | type:
    """A schema as text, or the model class that it is."""
    if isinstance(schema, (str, type)):
        return schema
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(
            f"the schema cannot be written as JSON ({error}); allowed are JSON text, what json.dumps "
            "takes, and a pydantic model class"
        ) from error


def _require(given: Any, allowed: type | tuple[type, ...], name: str) -> None:
    """Refuse what XGrammar would: its own error takes a second the first time."""
    if not isinstance(given, allowed):
        names = " and ".join(one.__name__ for one in (allowed if isinstance(allowed, tuple) else (allowed,)))
        raise GrammarError(f"{name} is of type {type(given).__name__}, allowed is {names}")


def _check_text(value: object, name: str, allowed: str = "text") -> None:
    """Raise `GrammarError` for what is no text: it might not even tell calls apart."""
    if not isinstance(value, str):
        raise GrammarError(f"{name} is {shown(value)}, allowed is {allowed}")
