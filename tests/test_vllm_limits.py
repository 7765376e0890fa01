"""A whole vLLM with token limits, drafts from grammars and both meanings at once; only if vLLM can run."""

import json
from importlib.util import find_spec

import jsonschema
import pytest

from tests.vllm_engine_run import run
from tests.vllm_limits_run import ASKED, MOST_TOKENS, SCHEMAS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")]


def asked(n_drafts: int, **settings: str):
    environment = {f"EQUIMASK_VLLM_{name}": value for name, value in settings.items()}
    found, printed = run("tests.vllm_limits_run", str(n_drafts), **environment)
    assert "Traceback" not in printed
    return found


@pytest.mark.parametrize("semantics", ["xgrammar", "json-schema"])
def test_texts_end_in_time_with_drafts_and_without(semantics):
    alone, drafted = (asked(n_drafts, TOKEN_LIMITS="1", SEMANTICS=semantics) for n_drafts in (0, 8))
    for found in (alone, drafted):
        for how in found["ids"]:
            assert found["reasons"][how] == ["stop"] * len(ASKED), found["texts"][how]
            assert all(len(ids) <= MOST_TOKENS for ids in found["ids"][how])
            for schema, text in zip(SCHEMAS, found["texts"][how], strict=False):
                # XGrammar allows control characters in strings of bounded length; JSON forbids them
                jsonschema.validate(json.loads(text, strict=semantics != "xgrammar"), schema)
        assert found["together"] > 0
    assert [*alone["ids"]] == ["greedy", "drawn"]
    assert alone["ids"]["greedy"] == drafted["ids"]["greedy"]
    assert max(map(len, alone["ids"]["greedy"])) > MOST_TOKENS - 8, "some text had to be closed"
    assert drafted["accepted"] > 20 and drafted["passes"] < alone["passes"]


def test_without_closing_such_texts_run_to_their_limit():
    assert "length" in asked(0)["reasons"]["greedy"]
