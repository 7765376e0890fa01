"""One request on one engine: from a schema that is new to its first mask, and through one document.

What: a `Begun` request has its first mask; `run_document` takes it through one document, and `Request` is
what was measured on the way. `quiet` waits until no engine has work left in the background.
When: in `bench.schemas`, where all engines serve the same schemas and the same documents.
Limits: each engine runs alone. The document's first mask is that of the request, so the time to the end of
the document is that to the first mask and that of every token and mask after it. CPU time is that of all
threads, and of what an engine goes on doing in the background; wall time ends with the last mask.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, process_time
from typing import Any

from bench.peers.llguidance import Peer, Started
from bench.workloads import Start

BACKGROUND = "equimask-promotion"
"""Name of the threads that find our classes and states while grammars serve."""


@dataclass
class Request:
    """Seconds of one request.

    Attributes:
        refusal: why there is no grammar.
        over: the seconds after which compiling was given up; no times then.
        first_mask, first_mask_cpu: from the schema to the first mask.
        document, document_cpu: from the schema to the mask after the last token of the document; None where
            the document was not taken.
        mask, token: of each mask after the first, and of each token, in the document.
    """

    refusal: str = ""
    over: float | None = None
    first_mask: float | None = None
    first_mask_cpu: float | None = None
    document: float | None = None
    document_cpu: float | None = None
    mask: array[float] = field(default_factory=lambda: array("d"))
    token: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class Begun:
    """A request that has its first mask, or a refusal.

    Attributes:
        request: its times.
        made: what the engine says of it: a `Start` or a `Started`.
        fill, accept: the next mask, and the next token, which may be refused.
        is_complete: whether the document may end here.
    """

    request: Request
    made: Any
    fill: Callable[[], Any] | None = None
    accept: Callable[[int], bool] | None = None
    is_complete: Callable[[], bool] | None = None


def begun(start: Start, bitmask: Any) -> Begun:
    """A request of ours, or of XGrammar's."""
    matcher = start.matcher
    if matcher is None:
        return Begun(Request(start.error), start)
    return Begun(
        Request("", None, start.seconds, start.cpu_seconds),
        start,
        partial(matcher.fill_next_token_bitmask, bitmask),
        matcher.accept_token,
        matcher.is_completed,
    )


def begun_by_peer(started: Started, peer: Peer) -> Begun:
    """A request of llguidance's."""
    matcher = started.matcher
    if started.refusal:
        return Begun(Request(started.refusal), started)
    return Begun(
        Request("", None, started.seconds, started.cpu_seconds),
        started,
        partial(matcher.unsafe_compute_mask_ptr, *peer.row),
        matcher.consume_token,
        matcher.is_accepting,
    )


def run_document(one: Begun, ids: Sequence[int]) -> bool:
    """Take a request through a document, and say whether all of it was taken."""
    request, fill, accept = one.request, one.fill, one.accept
    if fill is None or accept is None or one.is_complete is None:
        return False
    quiet()
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
    quiet()
    cpu_seconds = process_time() - cpu_began
    if not one.is_complete():
        return False
    request.document = (request.first_mask or 0.0) + seconds
    request.document_cpu = (request.first_mask_cpu or 0.0) + cpu_seconds
    return True


def quiet() -> None:
    """Wait until no engine of this process has work left in the background."""
    for thread in threading.enumerate():
        if thread.name == BACKGROUND:
            thread.join()
