"""How vLLM's own front end treats JSON schemas with our plugin; only if vLLM is installed."""

import json
import os
from types import SimpleNamespace

import pytest

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
pytest.importorskip("vllm.v1.structured_output")

from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output import backend_xgrammar

import adapters.vllm
from tests.test_vllm_managers import STOP, TOKENIZER, ids_of, manager_of, request_of, vllm  # noqa: F401 - a fixture
from tests.test_vllm_schema_check import NEVER, SERVED


@pytest.fixture
def exact(vllm, monkeypatch):  # noqa: F811
    """Register the plugin with JSON Schema semantics."""
    monkeypatch.setenv("EQUIMASK_VLLM_SEMANTICS", "json-schema")
    monkeypatch.setenv("EQUIMASK_VLLM_CHECK_SECONDS", "1")
    monkeypatch.setattr(
        backend_xgrammar, "validate_xgrammar_grammar", backend_xgrammar.validate_xgrammar_grammar
    )
    adapters.vllm.register()


def chosen(backend: str, **kind) -> str:
    """Return the backend that the front end chooses."""
    asked = SamplingParams(structured_outputs=StructuredOutputsParams(**kind))
    model = SimpleNamespace(is_diffusion=False)
    asked._validate_structured_outputs(model, SimpleNamespace(backend=backend), TOKENIZER)
    return asked.structured_outputs._backend


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("backend", ["xgrammar", "auto"])
def test_with_us_they_are_served(exact, name, backend):
    assert chosen(backend, json=SERVED[name]) == "xgrammar"
    assert chosen(backend, json=json.dumps(SERVED[name])) == "xgrammar"


def test_what_is_refused_is_an_error_or_goes_where_it_went(exact):
    with pytest.raises(VLLMValidationError, match="has no valid instance"):
        chosen("xgrammar", json=NEVER)
    many_states = {"type": "integer", "multipleOf": 100003}
    with pytest.raises(VLLMValidationError, match="states"):
        chosen("xgrammar", json=many_states)
    assert chosen("auto", json=many_states) == "guidance"


def test_schemas_in_tags_are_checked(exact):
    def tag(schema):
        content = {"type": "json_schema", "json_schema": schema}
        form = {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}
        return json.dumps({"type": "structural_tag", "format": form})

    assert chosen("xgrammar", structural_tag=tag({"type": "integer", "minimum": 3})) == "xgrammar"
    with pytest.raises(VLLMValidationError, match="at /format/content/json_schema has no valid instance"):
        chosen("xgrammar", structural_tag=tag({"enum": [1, 2], "minimum": 3}))


def test_the_engine_keeps_what_the_front_end_promised(exact):
    manager = manager_of()
    seven = json.dumps({"type": "integer", "multipleOf": 7, "minimum": 1})
    request = request_of(manager, "a", {"json": seven})
    matcher = request.structured_output_request.grammar.matcher
    assert manager.accept_tokens(request, ids_of("2")) and not matcher.accept_token(STOP)
    assert manager.accept_tokens(request, ids_of("1")) and matcher.accept_token(STOP)
