"""Filling all rows of a step of vLLM in one call, instead of row by row in Python.

What: `in_one_call` replaces the manager's ``grammar_bitmask``. For requests whose masks come from us alone,
the rows, and those after their drafts, are filled like `hybrid.BatchGrammarMatcher` does, which neither reads
drafts nor takes them back. All other rows (of another backend, while a model thinks, after an error, at the
end) are filled by vLLM's own loop, and so are all rows if the call fails. The workers get the same bits.
When: bound by `adapters.vllm.registration`.
Limits: only if the sources of vLLM's loop and of its grammar class are in `KNOWN`; otherwise vLLM's loop
stays.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

logger = logging.getLogger("vllm.equimask")

Loop = Callable[[Any, dict[str, Any], list[str], dict[str, list[int]]], Any]

READ = (
    ("_get_reasoner", "_get_constraint_bounds", "_fill_bitmasks", "grammar_bitmask"),
    ("accept_tokens", "rollback", "fill_bitmask", "is_terminated"),
)
"""The methods of vLLM that a step calls: of the manager, and of the grammar of its XGrammar backend."""

KNOWN = {"f00c69ca85d616dd": False, "741310f266aa028f": True}
"""For digests of these sources (0.32.0, 0.33.0), whether each request has the same number of rows, however
many drafts it has."""


def bind(manager: ModuleType, backend: ModuleType) -> None:
    """Replace the loop by the call, if the loop is known.

    Args:
        manager, backend: vLLM's modules of the manager and of its XGrammar backend.
    """
    kind = manager.StructuredOutputManager
    made = digest(kind, getattr(backend, "XgrammarGrammar", None))
    if made not in KNOWN:
        logger.info("vLLM asks for masks row by row: its loop (%s) is not one that equimask knows", made)
        return
    kind.grammar_bitmask = in_one_call(kind.grammar_bitmask, backend.XgrammarGrammar, KNOWN[made])


def digest(manager: Any, grammar: Any) -> str:
    """Return a digest of the sources of the methods that a step calls. A missing or replaced method changes
    it."""
    found = hashlib.sha256()
    for kind, names in zip((manager, grammar), READ, strict=True):
        for name in names:
            function = vars(kind).get(name) if isinstance(kind, type) else None
            try:
                source = "" if hasattr(function, "__wrapped__") else inspect.getsource(function)  # type: ignore[arg-type]
            except (OSError, TypeError):  # the file or the function does not exist
                source = ""
            found.update(f"{name}\0{source}\0".encode())
    return found.hexdigest()[:16]


class _Step(NamedTuple):
    """The requests of a step whose rows come from us alone, and all others.

    Attributes:
        names: the names of the former.
        matchers, drafts, rows: their matchers, draft tokens and first rows.
        others: the name and the first row of each other request.
        n_rows: the number of all rows.
    """

    names: list[str]
    matchers: list[Any]
    drafts: list[Sequence[int]]
    rows: list[int]
    others: list[tuple[str, int]]
    n_rows: int


def in_one_call(by_vllm: Loop, grammar: Any, is_strided: bool) -> Loop:
    """Make a replacement for the manager's ``grammar_bitmask``.

    Args:
        by_vllm: vLLM's own function.
        grammar: the class of vLLM's grammars.
        is_strided: whether each request has the same number of rows, however many drafts it has.
    """

    @functools.wraps(by_vllm)
    def grammar_bitmask(
        self: Any, requests: dict[str, Any], structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ) -> Any:  # fmt: skip
        asked = requests, structured_output_request_ids, scheduled_spec_decode_tokens
        bitmask = self._grammar_bitmask
        if bitmask is None or len(structured_output_request_ids) < 2:  # for one request the loop is as fast
            return by_vllm(self, *asked)
        if self.vllm_config.model_config.is_diffusion:
            return by_vllm(self, *asked)
        step = _step_of(self, grammar, is_strided, *asked)
        if not step.names or step.n_rows > len(bitmask) or not _fill(step, bitmask):
            return by_vllm(self, *asked)
        try:
            for names, row in _runs(step.others, structured_output_request_ids):
                self._grammar_bitmask = bitmask[row:]  # so that these rows come first
                by_vllm(self, requests, names, scheduled_spec_decode_tokens)
        finally:
            self._grammar_bitmask = bitmask
        return bitmask[: step.n_rows].numpy()

    return grammar_bitmask


def _step_of(
    manager: Any, grammar: Any, is_strided: bool, requests: dict[str, Any], names: list[str],
    scheduled: dict[str, list[int]],
) -> _Step:  # fmt: skip
    """Find which requests have which rows. None are ours if a request has more drafts than rows."""
    from adapters.vllm.compiler import GrammarMatcher  # slow to import, and needed only in the engine

    found = _Step([], [], [], [], [], 0)
    stride = manager.vllm_config.num_speculative_tokens + 1
    from_start = manager.enable_in_reasoning or manager.reasoner_cls is None
    row = 0
    for name in names:
        asked = requests[name].structured_output_request
        made = asked.grammar
        drafts = scheduled.get(name, ())
        if is_strided and len(drafts) >= stride:
            return _Step([], [], [], [], [], 0)
        if (
            (from_start or asked.reasoning_ended)
            and type(made) is grammar
            and not made.is_terminated()
            and type(made.matcher) is GrammarMatcher
            and not made.matcher.has_failed  # else its own methods give the masks
        ):
            found.names.append(name)
            found.matchers.append(made.matcher)
            found.drafts.append(drafts)
            found.rows.append(row)
        else:
            found.others.append((name, row))
        row += stride if is_strided else len(drafts) + 1
    return found._replace(n_rows=row)


def _fill(step: _Step, bitmask: Any) -> bool:
    """Fill our rows; return whether that succeeded."""
    try:
        fill_drafts, rows_of_one_matcher = _asked()
        taken = fill_drafts(step.matchers, bitmask, step.rows, step.drafts, rows_of_one_matcher)
    except Exception:
        logger.exception("Filling all masks of a step in one call failed; they are filled one by one")
        return False
    for name, drafts, count in zip(step.names, step.drafts, taken, strict=True):
        if count < len(drafts) and drafts[count] != -1:
            logger.error("Unexpected: a draft of request %s, token %s, is not allowed", name, drafts[count])
    return True


def _runs(others: list[tuple[str, int]], names: list[str]) -> list[tuple[list[str], int]]:
    """Return groups of requests that follow each other in a step, with the first row of each group."""
    found: list[tuple[list[str], int]] = []
    place = {name: at for at, name in enumerate(names)} if others else {}
    last = -2
    for name, row in others:
        if place[name] == last + 1:
            found[-1][0].append(name)
        else:
            found.append(([name], row))
        last = place[name]
    return found


@functools.cache
def _asked() -> tuple[Callable[..., list[int]], Callable[..., Any]]:
    """Return the functions that `hybrid.BatchGrammarMatcher` calls after its checks, which are not needed
    here."""
    from hybrid.api.batch import rows_of_one_matcher
    from hybrid.api.draft_rows import fill_drafts

    return fill_drafts, rows_of_one_matcher
