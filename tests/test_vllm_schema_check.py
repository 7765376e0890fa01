"""What a stand-in for vLLM's front end reports about JSON schemas; `test_vllm_front_end` uses vLLM itself."""

import json
import logging
import sys
import time
from types import SimpleNamespace

import pytest

from tests import test_adapters_vllm as shared
from tests.vllm_stand_in import BACKEND, FRONT_END, FRONT_MODULES, MODULES

vllm = shared.vllm  # the fixture

SERVED = {
    "multipleOf": {"type": "integer", "multipleOf": 3},
    "uniqueItems": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "contains": {"type": "array", "contains": {"type": "integer"}, "minContains": 2},
    "patternProperties": {
        "type": "object", "properties": {"a": {"type": "string"}},
        "patternProperties": {"^b": {"type": "integer"}},
    },
    "propertyNames": {"type": "object", "propertyNames": {"pattern": "^x", "maxLength": 3}},
    "allOf": {"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]},
    "pattern and length": {"type": "string", "pattern": "^a", "maxLength": 3},
}  # fmt: skip

NEVER = {"allOf": [{"type": "string"}, {"type": "integer"}]}
REMOTE = {"properties": {"a": {"$ref": "https://example.com/other.json"}}}
LONG = {"anyOf": [{"type": "string", "pattern": f"^([a-z]{{1,{k}}}[0-9]){{1,60}}$"} for k in range(20, 60)]}
"""Automata whose union takes 0.2 s on a fast machine."""


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Give schemas their own meaning."""
    monkeypatch.setenv("EQUIMASK_VLLM_SEMANTICS", "json-schema")


@pytest.fixture
def front_end(vllm):
    """The stand-in's module that checks requests, with the adapter registered."""
    adapter, *_, module = vllm()
    adapter.register()
    return module


def asked_for(front_end, backend: str | None = "xgrammar", **kinds):
    names = "json", "regex", "structural_tag", "_backend"
    asked = SimpleNamespace(**{**dict.fromkeys(names), "was_asked": False, **kinds})
    params = front_end.SamplingParams(asked)
    if backend is not None:
        params._validate_structured_outputs(backend)
    return params


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("backend", ["xgrammar", "auto"])
@pytest.mark.parametrize("as_text", [False, True])
def test_schemas_that_are_compiled_are_served(front_end, name, backend, as_text):
    schema = json.dumps(SERVED[name]) if as_text else SERVED[name]
    assert not asked_for(front_end, backend, json=schema).structured_outputs.was_asked


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (NEVER, "has no valid instance"),
        (REMOTE, "at /properties/a"),
        ('{"type": "strin', "cannot be read"),
        ({"type": "strng"}, "'type'"),
    ],
)
def test_schemas_that_are_not_compiled_are_refused_with_the_place(front_end, schema, why):
    refused = sys.modules[FRONT_MODULES[1]].VLLMValidationError
    with pytest.raises(refused, match="cannot be served") as caught:
        asked_for(front_end, json=schema)
    assert why in str(caught.value) and "relax=True" not in str(caught.value)


def test_schemas_with_half_characters_can_be_sent_to_the_engine(front_end):
    schema = {"enum": ["\ud800"]}
    sent = asked_for(front_end, json=schema).structured_outputs.json
    assert json.loads(sent.encode()) == schema


def test_schemas_in_tags_are_checked_after_vllm(front_end):
    def asked(schema, is_old):
        ends = {"begin": "<f>", "end": "</f>"}
        form = {"type": "tag", "content": {"type": "json_schema", "json_schema": schema}, **ends}
        new: dict = {"type": "structural_tag", "format": form}
        old: dict = {"structures": [{"schema": schema, **ends}], "triggers": ["<f>"]}
        return asked_for(front_end, structural_tag=json.dumps(old if is_old else new)).structured_outputs

    refused = sys.modules[FRONT_MODULES[1]].VLLMValidationError
    for is_old in (False, True):
        assert asked(SERVED["multipleOf"], is_old).was_asked
        with pytest.raises(refused, match=r"at /format/\S*/json_schema has no valid instance"):
            asked({"type": "array", "items": NEVER, "minItems": 1}, is_old)
        with pytest.raises(refused, match="must not be repeated, which is not supported in a tag"):
            asked(SERVED["uniqueItems"], is_old)


def test_everything_else_is_asked_of_vllm(vllm):
    adapter, _, backend, front_end = vllm()
    adapter.register()
    bound = backend.validate_xgrammar_grammar
    adapter.register()  # which binds nothing again
    assert backend.validate_xgrammar_grammar is bound and not hasattr(bound.by_vllm, "by_vllm")
    assert asked_for(front_end, regex="[0-9]").structured_outputs.was_asked
    without_backend = asked_for(front_end, None, json={"multipleOf": 3})
    with pytest.raises(ValueError, match="not supported by xgrammar"):  # for a structural tag
        backend.validate_xgrammar_grammar(without_backend)


@pytest.mark.parametrize("semantics", [None, "xgrammar"])
def test_nothing_is_bound_where_schemas_mean_what_xgrammar_makes_of_them(vllm, monkeypatch, semantics):
    monkeypatch.delenv("EQUIMASK_VLLM_SEMANTICS")
    if semantics:
        monkeypatch.setenv("EQUIMASK_VLLM_SEMANTICS", semantics)
    adapter, _, backend, _ = vllm(front_end="")
    before = backend.validate_xgrammar_grammar
    adapter.register()
    assert adapter.is_registered() and backend.validate_xgrammar_grammar is before


@pytest.mark.parametrize(
    ("backend", "front_end", "why"),
    [
        (BACKEND.replace("def validate_", "def check_"), FRONT_END, "has no validate_xgrammar_grammar"),
        (BACKEND.replace("asked.json", "asked.schema"), FRONT_END, "does not read structured_outputs.json"),
        (BACKEND, FRONT_END.replace("_structured_outputs(self", "_outputs(self"), "does not ask"),
        (BACKEND, FRONT_END.replace("validate_xgrammar_grammar", "check_it"), "does not ask"),
        (BACKEND, FRONT_END.replace("_backend =", "chosen ="), "does not ask"),
        (BACKEND, FRONT_END.replace("SamplingParams", "Params"), "does not ask"),
    ],
)
def test_it_is_loud_where_the_front_end_is_another(vllm, backend, front_end, why):
    adapter, _, module, _ = vllm(backend=backend, front_end=front_end)
    before = dict(vars(module))
    with pytest.raises(adapter.CannotRegister, match=why):
        adapter.register()
    assert before == vars(module) and not adapter.is_registered()


@pytest.mark.parametrize("module", [MODULES[3], FRONT_MODULES[0]])
def test_it_is_loud_where_modules_are_missing(vllm, module):
    adapter, *_ = vllm()
    del sys.modules[module]  # the fixture restores it
    with pytest.raises(adapter.CannotRegister, match=f"there is no module {module}"):
        adapter.register()


def test_what_is_not_decided_in_time_is_left_to_the_engine(vllm, monkeypatch, caplog):
    adapter, *_, front_end = vllm()
    monkeypatch.setenv("EQUIMASK_VLLM_CHECK_SECONDS", "0.02")
    adapter.register()
    began = time.process_time()
    with caplog.at_level(logging.INFO, "vllm.equimask"):
        asked_for(front_end, json=LONG)
    assert time.process_time() - began < 4
    assert "could not be checked within 0.02 s" in caplog.text
    began = time.process_time()
    asked_for(front_end, json=LONG)  # the result is kept
    assert time.process_time() - began < 0.1


def test_an_error_of_ours_refuses_nobody(front_end, monkeypatch, caplog):
    from adapters.vllm import schema_check

    monkeypatch.setattr(schema_check, "grammar_of_schema", lambda *_, **__: 1 / 0)
    with caplog.at_level(logging.ERROR, "vllm.equimask"):
        asked_for(front_end, json={"type": "null"})
    assert "could not be checked" in caplog.text


def test_answers_are_bounded(vllm):
    vllm()
    from adapters.vllm.schema_check import LONGEST_ANSWER, refusal_of
    from hybrid.json_schema import grammar_of_schema

    assert (
        len(refusal_of(grammar_of_schema, json.dumps({"pattern": "(" * 5000}), 1.0, True)) <= LONGEST_ANSWER
    )
    empty = json.dumps({"type": "string", "format": "date", "maxLength": 3})
    assert (
        refusal_of(grammar_of_schema, empty, 1.0, True)
        != ""
        == refusal_of(grammar_of_schema, empty, 1.0, False)
    )
