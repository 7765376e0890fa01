"""Checking JSON schemas in vLLM's front end, with ``semantics="json-schema"``.

What: vLLM's own check looks for keywords that XGrammar does not know, and runs XGrammar's converter for as
long as it takes. `answered` replaces that check for schemas by `refusal_of`, which makes the grammar that
the engine will compile, and stops when its time is over. Other requests go to vLLM's own function; the
schemas in structural tags are checked after it.
When: bound by `adapters.vllm.registration` under ``EQUIMASK_VLLM_SEMANTICS=json-schema``. It is called by the
event loop of the process that accepts requests.
Limits: a schema that cannot be checked in time is not refused; the engine compiles it within its own bound.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from typing import Any

import xgrammar

from equivalence import BudgetExceeded, GrammarError
from equivalence.bounded_cache import cached
from equivalence.deadline import Deadline
from hybrid.compile.tag_request import exact_grammars, read_tag, tag_text
from hybrid.json_schema import SchemaRefused, grammar_of_schema

logger = logging.getLogger("vllm.equimask")

LONGEST_ANSWER = 1000
"""Length of an answer, which may quote a keyword's value."""


@cached(4096)
def refusal_of(make: Callable[..., Any], text: str, seconds: float, assert_formats: bool) -> str:
    """Say why the engine will refuse a schema; "" if it will not, or if the time was over before that was
    known.

    Args:
        make: `grammar_of_schema`, or `check_tag` for the schemas of a structural tag.
        text: JSON text.
        seconds: time limit of one answer.
        assert_formats: whether `format` is checked, as by the compiler that serves.
    """
    try:
        make(text, deadline=Deadline(seconds), assert_formats=assert_formats)
    except GrammarError as error:
        return (error.fault if isinstance(error, SchemaRefused) else str(error))[:LONGEST_ANSWER]
    except BudgetExceeded:
        logger.info("A schema could not be checked within %g s; the engine compiles it anyway", seconds)
    except Exception:
        logger.exception("A schema could not be checked; the engine compiles or refuses it")
    return ""


def check_tag(text: str, deadline: Deadline, assert_formats: bool) -> None:
    """Make the grammars of the schemas of a structural tag, as JSON text of either form."""
    tag = read_tag(text)
    if "structures" in tag:
        items = [xgrammar.StructuralTagItem(**one) for one in json.loads(text)["structures"]]
        tag = read_tag(tag_text(items, tag["triggers"]))
    for _ in exact_grammars(tag, {}, deadline, assert_formats=assert_formats):
        pass  # making them is the check


def answered(
    by_vllm: Callable[[Any], None], refused: Callable[[str], Exception], seconds: float, assert_formats: bool
) -> Any:
    """vLLM's function that checks a request, with our answer about JSON schemas.

    The engine only sees requests that have a backend. For a request without one, vLLM asks whether XGrammar
    accepts the schema inside of a structural tag, where schemas have XGrammar's meaning; so vLLM's function
    answers.

    Args:
        by_vllm: vLLM's function.
        refused: makes the error for a refused request.
        seconds, assert_formats: as for `refusal_of`.
    """

    @functools.wraps(by_vllm)
    def validate(sampling_params: Any) -> None:
        asked = sampling_params.structured_outputs
        if asked is None or not asked._backend or (asked.json is None and asked.structural_tag is None):
            return by_vllm(sampling_params)
        if asked.json is not None:
            if not isinstance(asked.json, str):  # text reaches the engine even with half characters
                asked.json = json.dumps(asked.json)
            why = refusal_of(grammar_of_schema, asked.json, seconds, assert_formats)
        else:
            by_vllm(sampling_params)
            why = refusal_of(check_tag, asked.structural_tag, seconds, assert_formats)
        if why:
            raise refused(f"The JSON schema cannot be served: {why}")
        return None

    vars(validate)["by_vllm"] = by_vllm
    return validate
