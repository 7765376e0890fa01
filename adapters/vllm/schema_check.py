"""Checking JSON schemas in vLLM's front end, with ``semantics="json-schema"``.

What: vLLM's own check looks for keywords that XGrammar does not know, and runs XGrammar's converter for as
long as it takes. `answered` replaces that check for schemas by a `SchemaCheck`, which makes the grammar that
the engine will compile, and stops when its time is over. Other requests go to vLLM's own function; the
schemas in structural tags are checked after it.
When: bound by `adapters.vllm.registration` under ``EQUIMASK_VLLM_SEMANTICS=json-schema``. It is called by the
event loop of the process that accepts requests.
Limits: a schema that cannot be checked in time is not refused; the engine compiles it within its own bound.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any

import xgrammar

from equivalence import BudgetExceeded, GrammarError
from equivalence.deadline import Deadline
from hybrid.compile.tag_request import exact_grammars, read_tag, tag_text
from hybrid.json_schema import SchemaRefused, grammar_of_schema

logger = logging.getLogger("vllm.equimask")

MOST_KEPT = 4096
"""Most answers that are kept; then all are dropped. Each takes about 200 bytes."""

LONGEST_ANSWER = 1000
"""Length of an answer, which may quote a keyword's value."""


class SchemaCheck:
    """Says whether the engine will serve a schema, or the schemas of a structural tag.

    Args:
        seconds: time limit of one answer.
        assert_formats: whether `format` is checked, as by the compiler that serves.
    """

    def __init__(self, seconds: float, assert_formats: bool = True) -> None:
        self._seconds, self._assert_formats = seconds, assert_formats
        self._kept: dict[tuple[Callable[..., Any], bytes], str] = {}

    def schema(self, text: str) -> str:
        """Return why a schema, as JSON text, is refused; "" if it is not, or if the time was over before that
        was known."""
        return self._answer(text, grammar_of_schema)

    def tag(self, text: str) -> str:
        """The same for the schemas of a structural tag, as JSON text of either form."""
        return self._answer(text, _check_tag)

    def _answer(self, text: str, make: Callable[..., Any]) -> str:
        key = make, hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._kept.get(key)
        if known is None:
            known = self._found(text, make)[:LONGEST_ANSWER]
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = known
        return known

    def _found(self, text: str, make: Callable[..., Any]) -> str:
        try:
            make(text, deadline=Deadline(self._seconds), assert_formats=self._assert_formats)
        except GrammarError as error:
            return error.fault if isinstance(error, SchemaRefused) else str(error)
        except BudgetExceeded:
            logger.info(
                "A schema could not be checked within %g s; the engine compiles it anyway", self._seconds
            )
        except Exception:
            logger.exception("A schema could not be checked; the engine compiles or refuses it")
        return ""


def _check_tag(text: str, deadline: Deadline, assert_formats: bool) -> None:
    tag = read_tag(text)
    if "structures" in tag:
        items = [xgrammar.StructuralTagItem(**one) for one in json.loads(text)["structures"]]
        tag = read_tag(tag_text(items, tag["triggers"]))
    for _ in exact_grammars(tag, {}, deadline, assert_formats=assert_formats):
        pass  # making them is the check


def answered(by_vllm: Callable[[Any], None], refused: Callable[[str], Exception], check: SchemaCheck) -> Any:
    """vLLM's function that checks a request, with our answer about JSON schemas.

    The engine only sees requests that have a backend. For a request without one, vLLM asks whether XGrammar
    accepts the schema inside of a structural tag, where schemas have XGrammar's meaning; so vLLM's function
    answers.

    Args:
        by_vllm: vLLM's function.
        refused: makes the error for a refused request.
        check: checks JSON schemas.
    """

    @functools.wraps(by_vllm)
    def validate(sampling_params: Any) -> None:
        asked = sampling_params.structured_outputs
        if asked is None or not asked._backend or (asked.json is None and asked.structural_tag is None):
            return by_vllm(sampling_params)
        if asked.json is not None:
            if not isinstance(asked.json, str):  # text reaches the engine even with half characters
                asked.json = json.dumps(asked.json)
            why = check.schema(asked.json)
        else:
            by_vllm(sampling_params)
            why = check.tag(asked.structural_tag)
        if why:
            raise refused(f"The JSON schema cannot be served: {why}")
        return None

    vars(validate)["by_vllm"] = by_vllm
    return validate
