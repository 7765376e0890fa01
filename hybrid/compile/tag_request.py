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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import xgrammar

from equivalence import GrammarError, Vocabulary
from equivalence.deadline import Deadline
from hybrid.compile.compilation import Compilation
from hybrid.compile.request import REFUSALS, Converted, check_options, check_text
from hybrid.compile.schema_request import bounds_of
from hybrid.compiled import CompiledGrammar
from hybrid.guard import READ_FACTOR
from hybrid.guard.estimate import Estimate, tag_estimate
from hybrid.json_schema import SchemaGrammar, SchemaRefused, grammar_of_schema, read_schema
from hybrid.xgrammar.messages import refusals
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

    def checked(self, vocabulary: Vocabulary) -> dict[str, Any]:
        with refusals(f"refuses the {self.title}", REFUSALS):
            text = with_token_ids(tag_text(*self.arguments), vocabulary)
        check_text(text, "the structural tag", "JSON text, a dict or an xgrammar.StructuralTag")
        return {"text": text, "arguments": ()}  # models in the arguments are not kept

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
        budget = self.settings.budget
        with refusals(f"refuses the {self.title}", REFUSALS):
            tag = read_tag(self.text)
            grammars = exact_grammars(
                tag, self.options, deadline, assert_formats=self.assert_formats,
                bounds=bounds_of(budget.states), most_bytes=budget.bytes // READ_FACTOR,
            )  # fmt: skip
            for one, grammar in grammars:
                text = grammar.ebnf
                one.clear()
                one.update(type="grammar", grammar=text)
            text = json.dumps(tag, default=float)  # XGrammar reads the numbers that are left as floats
        seconds = time.perf_counter() - began
        request = StructuralTagRequest((), text, settings=self.settings)
        compiled = request.compiled(compilation, deadline)
        compiled.timings["parse"] += seconds
        return compiled


def tag_text(tag: Any, *triggers: Any) -> Any:
    """The JSON text of a structural tag, or of the older pair of tags and triggers. Other types are returned
    unchanged."""
    if triggers:
        tag = xgrammar.StructuralTag.from_legacy_structural_tag(tag, *triggers)
    if isinstance(tag, dict):
        return json.dumps(tag)
    if isinstance(tag, xgrammar.StructuralTag):
        return tag.model_dump_json()
    return tag


def read_tag(text: str) -> Any:
    """Parse the text of a structural tag. Numbers are exact.

    Raises:
        GrammarError: it is not JSON.
    """
    try:
        return read_schema(text)
    except SchemaRefused as error:
        raise GrammarError(f"the structural tag {error.why}") from error


def exact_grammars(
    tag: Any, options: Mapping[str, Any], deadline: Deadline, **others: Any
) -> Iterator[tuple[dict[str, Any], SchemaGrammar]]:
    """Yield each format of a structural tag that is a JSON schema, with the grammar of the schema. The format
    may be changed in place.

    Args:
        tag: the tag as parsed JSON.
        options: XGrammar's options for schemas that have no options of their own.
        deadline: when to give up.
        **others: arguments of `grammar_of_schema`.

    Raises:
        GrammarError: an option is not available; `SchemaRefused`: a schema cannot be compiled exactly.
        BudgetExceeded: the deadline has passed.
    """
    for pointer, one in formats_of(tag):
        if one.get("type") == "json_schema" and one.get("style", "json") == "json":
            try:
                grammar = _grammar(one, options, deadline, others)
            except SchemaRefused as error:
                place = f"{pointer}/json_schema{error.pointer}"
                raise SchemaRefused(error.kind, error.keyword, place, error.why) from error
            yield one, grammar


def _grammar(
    one: Mapping[str, Any], options: Mapping[str, Any], deadline: Deadline, others: Mapping[str, Any]
) -> SchemaGrammar:
    """The grammar of the schema in a format."""
    own = {name: one[name] for name in ("any_order", "max_whitespace_cnt") if one.get(name) is not None}
    check_options(own)
    if one.get("excludes"):
        raise SchemaRefused("needed", "", "", "has `excludes`, which is not supported")
    grammar = grammar_of_schema(one.get("json_schema"), {**options, **own}, deadline=deadline, **others)
    if grammar.places is not None:
        why = "has items or keys that must not be repeated, which is not supported in a tag"
        raise SchemaRefused("needed", "", "", why)
    return grammar
