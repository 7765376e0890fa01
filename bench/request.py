"""One request on one engine: from a new schema to its first mask, and through one document.

What: `Calls` is the interface to a matcher of any engine. `hybrid_start` and `plain_start` go from a grammar
to a first mask (`bench.peers.llguidance` has its own function), `run_document` then goes through one
document, and `Request` has the measurements.
When: in all benchmarks that time grammars; whole requests in `bench.schemas`, where all engines serve the
same schemas and documents.
Limits: each engine runs alone. The document's first mask is that of the request, so the time of the document
includes the time to the first mask, and every later token and mask. CPU time is that of all threads.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, process_time
from typing import Any

import xgrammar


@dataclass(frozen=True)
class Calls:
    """The methods of a matcher of any engine, looked up in advance.

    Attributes:
        fill: fills the next mask into `bitmask`.
        accept: reads the next token, and returns whether it was accepted.
        is_complete: returns whether the text may end here.
        bitmask: the row for masks.
        error: returns why the matcher has failed, or "", for matchers that do not raise errors.
    """

    fill: Callable[[], Any]
    accept: Callable[[int], bool]
    is_complete: Callable[[], bool]
    bitmask: Any = None
    error: Callable[[], str] = str


def calls_of(matcher: Any, bitmask: Any) -> Calls:
    """Return the methods of one of our matchers, or of XGrammar's."""
    fill = partial(matcher.fill_next_token_bitmask, bitmask)
    return Calls(fill, matcher.accept_token, matcher.is_completed, bitmask)


@dataclass(frozen=True)
class Start:
    """The way from a grammar to its first mask: the compiled grammar, and the seconds it took.

    ``cpu_seconds`` are those of all threads; they are more reliable on a machine with other users. ``error``
    is the message of an exception; ``compiled`` is None then. ``crashed`` distinguishes an exception that no
    user should see from a refusal. ``calls`` are those of a matcher that has filled the first mask.
    """

    compiled: Any
    seconds: float
    compile_seconds: float
    cpu_seconds: float
    error: str = ""
    crashed: bool = False
    calls: Calls | None = None


def hybrid_start(compile_it: Callable[[], Any], bitmask: Any, collect: bool = True) -> Start:
    """Compile a grammar and fill its first mask on our side.

    Errors that the project raises on purpose, or XGrammar's own, are refusals; all others are crashes.
    """
    from equivalence.errors import HybridError
    from hybrid import GrammarMatcher

    refusals = (HybridError, RuntimeError)
    return start(compile_it, lambda compiled: calls_of(GrammarMatcher(compiled), bitmask), refusals, collect)


def plain_start(compile_it: Callable[[], Any], bitmask: Any, collect: bool = True) -> Start:
    """Compile a grammar and fill its first mask in plain XGrammar, where all errors are refusals."""

    def calls(compiled: Any) -> Calls:
        return calls_of(xgrammar.GrammarMatcher(compiled), bitmask)

    return start(compile_it, calls, (Exception,), collect)


def start(
    compile_it: Callable[[], Any],
    calls_with: Callable[[Any], Calls],
    refusals: tuple[type[Exception], ...],
    collect: bool,
) -> Start:
    """Compile a grammar and fill its first mask.

    Garbage of earlier work is collected before, unless `collect` is false, so that it is not collected within
    the measured time. The collector stays on, as in a server: an engine that makes much garbage pays for it.
    """
    if collect:
        gc.collect()
    cpu_began, began = process_time(), perf_counter()
    try:
        compiled = compile_it()
        compile_seconds = perf_counter() - began
        calls = calls_with(compiled)
        calls.fill()
        seconds = perf_counter() - began
        if problem := calls.error():
            raise ValueError(problem)
    except Exception as error:  # noqa: BLE001 - a benchmark of many grammars goes on and reports it
        seconds, text = perf_counter() - began, f"{type(error).__name__}: {error}"
        crashed = not isinstance(error, refusals)
        return Start(None, seconds, seconds, process_time() - cpu_began, text, crashed)
    return Start(compiled, seconds, compile_seconds, process_time() - cpu_began, calls=calls)


@dataclass
class Request:
    """The seconds of one request.

    Attributes:
        refusal: why there is no grammar.
        over: the seconds after which compiling was given up; there are no other times then.
        first_mask, first_mask_cpu: from the schema to the first mask.
        document, document_cpu: from the schema to the mask after the last token of the document; None if the
            document was not accepted.
        mask, token: for each mask after the first, and for each token, in the document.
    """

    refusal: str = ""
    over: float | None = None
    first_mask: float | None = None
    first_mask_cpu: float | None = None
    document: float | None = None
    document_cpu: float | None = None
    mask: array[float] = field(default_factory=lambda: array("d"))
    token: array[float] = field(default_factory=lambda: array("d"))

    @classmethod
    def of(cls, begun: Start) -> Request:
        """Make a request from a start: it has its first mask, or a refusal."""
        if begun.error:
            return cls(begun.error)
        return cls(first_mask=begun.seconds, first_mask_cpu=begun.cpu_seconds)


def run_document(request: Request, calls: Calls, ids: Sequence[int]) -> bool:
    """Take a request that has its first mask through a document. Return whether all of it was accepted."""
    fill, accept = calls.fill, calls.accept
    cpu_began, began = process_time(), perf_counter()
    for token in ids:
        called = perf_counter()
        if not accept(token):
            return False
        accepted = perf_counter()
        fill()
        request.mask.append(perf_counter() - accepted)
        request.token.append(accepted - called)
    seconds = perf_counter() - began
    cpu_seconds = process_time() - cpu_began
    if not calls.is_complete():
        return False
    request.document = (request.first_mask or 0.0) + seconds
    request.document_cpu = (request.first_mask_cpu or 0.0) + cpu_seconds
    return True
