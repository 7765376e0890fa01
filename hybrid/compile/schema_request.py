"""Compile requests whose grammar is a JSON schema.

What: `JsonSchemaRequest` compiles a schema as XGrammar's converter reads it, `ExactSchemaRequest` with the
meaning of JSON Schema.
When: `GrammarCompiler.compile_json_schema` makes one of them, by its `semantics`.
Limits: options are XGrammar's. Unknown options are errors.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import xgrammar

from equivalence import GrammarError, Vocabulary, forks
from equivalence.arguments import flag
from equivalence.deadline import Deadline
from equivalence.network.grammar_reader import ParsedGrammar, read_printed
from hybrid.compile.compilation import Compilation
from hybrid.compile.request import SCHEMA_OPTIONS, Converted, EbnfRequest, Request, check_options
from hybrid.compile.settings import Settings
from hybrid.compiled import CompiledGrammar
from hybrid.guard import READ_FACTOR, Guard
from hybrid.guard.estimate import Estimate, schema_estimate
from hybrid.json_schema import Bounds, SchemaGrammar, documents_of, grammar_of_schema
from hybrid.xgrammar.relaxed import Relaxation, SchemaText, describe, schema_text

_LEADING = re.compile(r'\^(?<![^\\]["\[]\^)')
"""Finds a caret that may start a character class and stand for itself: it neither anchors a text nor negates
the class. The expression searches for the caret first, and then looks behind it. Looking behind at each
character of a schema took 4% of the time to its first mask."""

_MAY_BE_ZERO = re.compile(r"\\(?:u00[0-7]|u\{|[UxXcCoO0])")
"""Finds schemas that may spell a byte 0, or a part of such a spelling, by an escape of JSON or of regular
expressions."""


@forks.with_unlocked_properties
@dataclass(frozen=True, eq=False)
class JsonSchemaRequest(Converted):
    """A JSON schema.

    Attributes:
        schema: the schema as it was given; after `normalised`, text or a model class.
        options: options of XGrammar's converter.
        strict: whether to refuse the schema if XGrammar leaves something out of it.
    """

    notation: ClassVar[str] = "json_schema"
    title: ClassVar[str] = "JSON schema"
    schema: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        return {"schema": _schema_of(self.schema), "strict": flag(self.strict, "strict")}

    @property
    def key(self) -> tuple[Any, ...]:
        return self.notation, self.schema, _key_of(self.options)

    @cached_property
    def text(self) -> SchemaText:
        """The schema's text, with the options that determine what XGrammar leaves out. A model class is asked
        only once."""
        return schema_text(self.schema, self.options)

    def estimate(self) -> Estimate | None:
        check_options(self.options)
        is_known = SCHEMA_OPTIONS.keys() >= self.options.keys()
        return schema_estimate(self.text.text, self.options) if is_known else None

    def convert_here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_json_schema(self.text.text, **self.options)

    def remote_call(self) -> tuple[str, list[Any]]:
        options = [self.options.get(name, absent) for name, (_, absent) in SCHEMA_OPTIONS.items()]
        return "from_json_schema", [self.text.text, *options]

    def read_text(self, grammar: xgrammar.Grammar) -> ParsedGrammar | None:
        # XGrammar prints nothing of a text after a byte 0
        text = self.text.text
        if self.options.get("separators") is not None or "\0" in text:
            return None
        if "\\" in text and _MAY_BE_ZERO.search(text):
            return None
        return read_printed(grammar, "^" in text and _may_lead(text))

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        schema = self.text  # first, because a model class may have no schema
        compiled = super().compiled(compilation, deadline)
        # set before anybody else sees the grammar: the folder on disk keeps the schema, too
        object.__setattr__(compiled, "schema", schema)
        return compiled

    def check(self, compiled: CompiledGrammar, deadline: Deadline) -> None:
        if self.strict:
            deadline.check("looking for keywords that XGrammar does not enforce")
            if compiled.relaxed:
                raise GrammarError(describe(compiled.relaxed))


@dataclass(frozen=True, eq=False)
class ExactSchemaRequest(Request):
    """A JSON schema with ``semantics="json-schema"`` (`hybrid.json_schema`).

    Attributes:
        schema: the schema as it was given; after `normalised`, text.
        options: XGrammar's options for the layout of texts, and `strict_mode`.
        strict: whether to refuse the schema if something was left out of it.
        relax: whether to leave out and list what is not supported, instead of refusing the schema.
        assert_formats: whether `format` is checked; if not, it is an annotation.
        registry: the `referencing.Registry` of documents that references may lead to; after `normalised`,
            `hybrid.json_schema.Documents`.
    """

    notation: ClassVar[str] = "json_schema"
    schema: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    relax: bool = False
    assert_formats: bool = True
    registry: Any = None

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        for name in self.options:
            if name not in SCHEMA_OPTIONS:
                allowed = ", ".join(SCHEMA_OPTIONS)
                raise GrammarError(f"there is no option {name!r}; the options are {allowed}")
        check_options(self.options)
        text = _schema_of(self.schema)
        if not isinstance(text, str):
            text = schema_text(text, self.options).text  # a model class is asked only once
        return {
            "schema": text, "strict": flag(self.strict, "strict"), "relax": flag(self.relax, "relax"),
            "assert_formats": flag(self.assert_formats, "assert_formats"),
            "registry": documents_of(self.registry),
        }  # fmt: skip

    @property
    def key(self) -> tuple[Any, ...]:
        beside = None if self.registry is None else self.registry.digest
        asked = self.relax, self.assert_formats, beside
        return self.notation, "json-schema", *asked, self.schema, _key_of(self.options)

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        began = time.perf_counter()
        grammar = grammar_of_schema(
            self.schema, self.options, bounds=bounds_of(self.settings.budget.states), deadline=deadline,
            relax=self.relax, convert=partial(_converted, self.settings, compilation.guard),
            most_bytes=self.settings.budget.bytes // READ_FACTOR,
            assert_formats=self.assert_formats, documents=self.registry,
        )  # fmt: skip
        compiled = compilation.decide(grammar, time.perf_counter() - began, deadline, _own_reading)
        grammar.forget()
        schema = schema_text(self.schema, self.options, tuple(Relaxation(*one) for one in grammar.left_out))
        # set before anybody else sees the grammar
        object.__setattr__(compiled, "schema", schema)
        object.__setattr__(compiled, "places", grammar.places)
        return compiled

    def check(self, compiled: CompiledGrammar, deadline: Deadline) -> None:
        if self.strict and compiled.relaxed:
            raise GrammarError(describe(compiled.relaxed, is_own=True))


@lru_cache(maxsize=16)
def bounds_of(states: int) -> Bounds:
    """The bounds of a grammar for a budget of this many states."""
    part, tenth, few = (max(states // share, 1) for share in (6, 10, 400))
    # 12,000 keys that are counted take nearly all states of the network
    return Bounds(
        nonterminals=part, states=tenth, minterms=few, language_states=tenth, key_classes=few,
    )  # fmt: skip


def _key_of(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The options as a part of a key."""
    return tuple(sorted((name, repr(value)) for name, value in options.items()))


def _may_lead(text: str) -> bool:
    """Whether a schema may contain a character class that starts with a literal caret. A class that contains
    or excludes a bracket counts, too, because the remaining range may start with a caret."""
    return "\\]" in text or "[^]" in text or _LEADING.search(text) is not None


def _converted(settings: Settings, guard: Guard, text: str, deadline: Deadline | None) -> xgrammar.Grammar:
    """XGrammar's grammar of a text, for the strategies that run in XGrammar."""
    return guard.convert(EbnfRequest(text, settings=settings), deadline or Deadline(settings.seconds))


def _own_reading(grammar: SchemaGrammar) -> ParsedGrammar:
    """The part of a schema's grammar that the network is built from."""
    return grammar.counted


def _schema_of(schema: Any) -> str | type:
    """A schema as text, or a model class unchanged."""
    if isinstance(schema, (str, type)):
        return schema
    try:
        return json.dumps(schema)
    except RecursionError as error:
        raise GrammarError(
            f"the schema is nested too deeply for Python's json module ({error}); nest it less deeply"
        ) from error
    except (TypeError, ValueError) as error:
        raise GrammarError(
            f"the schema cannot be written as JSON ({error}); pass JSON text, something that "
            "json.dumps can write, or a pydantic model class"
        ) from error
