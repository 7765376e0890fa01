"""Requests: values that distinguish calls, and a pipeline that depends on no particular notation."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Any, ClassVar

import pytest
import xgrammar

from equivalence import Vocabulary
from equivalence.deadline import Deadline
from hybrid import Budget, GrammarCompiler
from hybrid.compile.request import (
    METHODS,
    BuiltinJsonRequest,
    EbnfRequest,
    Parsed,
    RegexRequest,
    StructuralTagRequest,
)
from hybrid.compile.schema_request import JsonSchemaRequest
from hybrid.compile.settings import Settings

SETTINGS = Settings("auto", Budget())
VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [b""], [256], [256])


def test_every_notation_has_its_methods() -> None:
    for method in METHODS.values():
        assert callable(getattr(GrammarCompiler, method)) and callable(
            getattr(GrammarCompiler, f"{method}_async")
        )


def test_requests_are_immutable() -> None:
    request = EbnfRequest('root ::= "a"', settings=SETTINGS)
    for name in ("text", "settings", "static", "more"):
        with pytest.raises(FrozenInstanceError):
            setattr(request, name, 1)


def test_keys_tell_apart_what_comes_out_differently() -> None:
    requests = [
        EbnfRequest("a", settings=SETTINGS),
        EbnfRequest("a", "other", settings=SETTINGS),
        EbnfRequest("a", settings=Settings("engine", Budget())),
        EbnfRequest("a", settings=Settings("auto", Budget(states=5))),
        RegexRequest("a", settings=SETTINGS),
        JsonSchemaRequest("a", settings=SETTINGS),
        JsonSchemaRequest("a", {"indent": 2}, settings=SETTINGS),
        BuiltinJsonRequest(settings=SETTINGS),
    ]
    keys = [(request.settings, request.key) for request in requests]
    assert len(set(keys)) == len(keys)
    again = EbnfRequest("a", settings=Settings("auto", Budget()), static=True)
    assert (again.settings, again.key) == keys[0], "static is another way to the same grammar"


def test_a_tag_becomes_the_grammar_of_it() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}
    request = StructuralTagRequest((tag,), settings=compiler._settings, static=True)
    normalised = request.normalised(compiler._compilation, Deadline())
    assert normalised.notation == "grammar" and normalised.static
    assert compiler.compile_structural_tag(tag) is compiler._pipeline.run(normalised, Deadline())


@dataclass(frozen=True, eq=False)
class Backwards(Parsed):
    """A notation that only this test knows: a text that is read from its end."""

    notation: ClassVar[str] = "backwards"
    text: str

    @property
    def key(self) -> tuple[Any, ...]:
        return self.notation, self.text

    def parse(self, guard: Any, deadline: Deadline) -> xgrammar.Grammar:
        return xgrammar.Grammar.from_ebnf(f'root ::= "{self.text[::-1]}"')


def test_a_new_notation_is_one_class(tmp_path: Any) -> None:
    for hits in (0, 1):
        compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, strategy="classifier")
        request = Backwards("cba", settings=compiler._settings)
        compiled = compiler._pipeline.run(request, Deadline())
        assert compiler._background.submit(request).result() is compiled
        found = compiler.stats()
        assert (found["memory"]["hits"], found["disk"]["hits"]) == (1, hits)
        assert compiled.strategy == "classifier"
