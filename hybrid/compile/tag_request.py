"""Compile requests for structural tags.

What: `StructuralTagRequest` compiles a tag as XGrammar converts it. `ExactTagRequest` gives its JSON schemas
the meaning of JSON Schema: it replaces each by its grammar, in EBNF, before XGrammar converts the tag.
When: `GrammarCompiler.compile_structural_tag` makes one of them, by its `semantics`.
Limits: schemas that are not written as JSON (`style` is one of XML) always have XGrammar's meaning. In a tag,
nothing remembers items or keys that must not be repeated, so schemas that need it are refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import xgrammar

from equivalence import GrammarError
from equivalence.deadline import Deadline
from hybrid.compile.compilation import Compilation
from hybrid.compile.request import SCHEMA_OPTIONS, Converted, Request, check_text, require
from hybrid.compile.schema_request import bounds_of
from hybrid.compiled import CompiledGrammar
from hybrid.guard import READ_FACTOR
from hybrid.guard.estimate import Estimate, tag_estimate
from hybrid.json_schema import SchemaRefused, grammar_of_schema, read_schema
from hybrid.xgrammar.tag_formats import formats_of
from hybrid.xgrammar.token_strings import with_token_ids


@dataclass(frozen=True, eq=False)
class StructuralTagRequest(Converted):
    """A structural tag, or the older pair of tags and triggers.

    Attributes:
        arguments: the arguments as they were given.
        text: after `normalised`, the tag as JSON text, with ids in place of token strings.
    """

    notation: ClassVar[str] = "structural_tag"
    title: ClassVar[str] = "structural tag"
    identity: ClassVar[tuple[str, ...]] = ("text",)
    arguments: tuple[Any, ...]
    text: str = ""

    def normalised(self, compilation: Compilation, deadline: Deadline) -> Request:
        with self.refusals():
            text = with_token_ids(self._given_text(), compilation.vocabulary)
        check_text(text, "the structural tag", "JSON text, a dict or an xgrammar.StructuralTag")
        # models in the arguments are not kept
        return Request.normalised(self.changed(text=text, arguments=()), compilation, deadline)

    def _given_text(self) -> Any:
        """The tag as JSON text. Other types are returned unchanged."""
        tag = self.arguments[0]
        if len(self.arguments) > 1:
            tag = xgrammar.StructuralTag.from_legacy_structural_tag(*self.arguments)
        if isinstance(tag, dict):
            return json.dumps(tag)
        if isinstance(tag, xgrammar.StructuralTag):
            return tag.model_dump_json()
        return tag

    def estimate(self) -> Estimate:
        return tag_estimate(self.text)

    def convert_here(self) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_structural_tag(self.text)

    def remote_call(self) -> tuple[str, list[Any]]:
        return "from_structural_tag", [self.text]


@dataclass(frozen=True, eq=False)
class ExactTagRequest(StructuralTagRequest):
    """A structural tag whose JSON schemas have the meaning of JSON Schema.

    Attributes:
        options: XGrammar's options for schemas that have no options of their own.
        assert_formats: whether `format` is checked; if not, it is an annotation.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    assert_formats: bool = True

    @property
    def key(self) -> tuple[Any, ...]:
        return *super().key, "json-schema", self.assert_formats, *sorted(self.options.items())

    def compiled(self, compilation: Compilation, deadline: Deadline) -> CompiledGrammar:
        began = time.perf_counter()
        with self.refusals():
            text = self._with_grammars(deadline)
        seconds = time.perf_counter() - began
        request = StructuralTagRequest((), text, settings=self.settings)
        compiled = request.compiled(compilation, deadline)
        compiled.timings["parse"] += seconds
        return compiled

    def _with_grammars(self, deadline: Deadline) -> str:
        """The tag with grammars in place of schemas."""
        try:
            tag = read_schema(self.text)
        except SchemaRefused as error:
            raise GrammarError(f"the structural tag {error.why}") from error
        for pointer, one in formats_of(tag):
            if one.get("type") == "json_schema" and one.get("style", "json") == "json":
                text = self._ebnf(one, pointer, deadline)
                one.clear()
                one.update(type="grammar", grammar=text)
        return json.dumps(tag, default=float)  # XGrammar reads the numbers that are left as floats

    def _ebnf(self, one: Mapping[str, Any], pointer: str, deadline: Deadline) -> str:
        """The grammar of the schema in a format."""
        own = {name: one[name] for name in ("any_order", "max_whitespace_cnt") if one.get(name) is not None}
        for name, value in own.items():
            require(value, SCHEMA_OPTIONS[name][0], f"the option {name}")
        pointer += "/json_schema"
        try:
            if one.get("excludes"):
                raise SchemaRefused("needed", "", "", "has `excludes`, which is not supported")
            budget = self.settings.budget
            grammar = grammar_of_schema(
                one.get("json_schema"), {**self.options, **own}, bounds=bounds_of(budget.states),
                deadline=deadline, most_bytes=budget.bytes // READ_FACTOR, assert_formats=self.assert_formats,
            )  # fmt: skip
            if grammar.places is not None:
                why = "has items or keys that must not be repeated, which is not supported in a tag"
                raise SchemaRefused("needed", "", "", why)
        except SchemaRefused as error:
            raise SchemaRefused(error.kind, error.keyword, pointer + error.pointer, error.why) from error
        return grammar.ebnf
