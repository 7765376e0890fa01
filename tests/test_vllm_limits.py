"""A whole vLLM with token limits, drafts from grammars and both meanings at once; only if vLLM can run."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import jsonschema
import pytest

from bench.cases import CHECKOUT
from tests.vllm_limits_run import ASKED, MOST_TOKENS, SCHEMAS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
]


def run(n_drafts: int, **settings: str):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment |= {f"EQUIMASK_VLLM_{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "tests.vllm_limits_run", str(n_drafts)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stdout + done.stderr
    return json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith('{"ids"')))


@pytest.mark.parametrize("semantics", ["xgrammar", "json-schema"])
def test_texts_end_in_time_with_drafts_and_without(semantics):
    alone, drafted = (
        run(0, TOKEN_LIMITS="1", SEMANTICS=semantics),
        run(8, TOKEN_LIMITS="1", SEMANTICS=semantics),
    )
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
    assert "length" in run(0)["reasons"]["greedy"]
