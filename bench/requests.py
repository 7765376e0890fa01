"""Mixed traffic: which schema each request asks for, and a request from schema to the end of its document.

What: `Traffic` draws the requests of a run: schemas of a folder by Zipf's law, a share that is malformed, a
share that is meant to hurt; `answer` compiles one, fills masks and reads tokens, and tells times and errors.
When: in `bench.traffic`; tests of long runs may use it alone.
Limits: equal seeds give equal requests. Popularity is by random rank: the n-th schema is asked for 1/n times
as often as the first. A document is a valid instance, cut by the longest match or at random; where there is
none, a random walk of `WALK` tokens. A document ends at the first token that is refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import xgrammar

from bench import adversarial, workloads
from bench.report import Spread
from bench.workloads import SchemaFile
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random

WALK = 30

DIGEST_BYTES = 8


@dataclass(frozen=True)
class Request:
    """One request: what kind it is ("schema", "malformed", "adversarial") and which of its kind."""

    number: int
    kind: str
    which: int


@dataclass
class Answer:
    """What one request got.

    Attributes:
        number: of the request.
        source: "memory", "disk" or "made"; "" where it was refused.
        error: type of the exception; `message` says more.
        expected: whether the error is one that the project raises on purpose.
        first, first_cpu: seconds to the first mask, and those of this thread's own; or to the error.
        strategy: of the compiled grammar.
        ids, digests: the tokens, and a digest (hexadecimal) of each mask, where the request is sampled.
        whole: the document was read to the end.
    """

    number: int
    source: str = ""
    error: str = ""
    message: str = ""
    expected: bool = True
    first: float = 0.0
    first_cpu: float = 0.0
    strategy: str = ""
    tokens: int = 0
    whole: bool = False
    ids: list[int] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)


class Histogram:
    """Times in bins, 1 % wide: their memory does not grow with the run that is looked at."""

    A_DECADE, LEAST, DECADES = 232, 1e-8, 12

    def __init__(self, bins: Sequence[int] | None = None, total: float = 0.0, most: float = 0.0) -> None:
        self.bins = [0] * (self.A_DECADE * self.DECADES) if bins is None else list(bins)
        self.total = total
        self.most = most

    def add(self, seconds: float) -> None:
        place = int(math.log10(max(seconds, self.LEAST) / self.LEAST) * self.A_DECADE)
        self.bins[min(place, len(self.bins) - 1)] += 1
        self.total += seconds
        self.most = max(self.most, seconds)

    @classmethod
    def united(cls, parts: Sequence[Histogram]) -> Histogram:
        """The times of several, in one."""
        bins = [sum(values) for values in zip(*(part.bins for part in parts), strict=True)] or None
        return cls(bins, sum(part.total for part in parts), max((part.most for part in parts), default=0.0))

    def spread(self) -> Spread:
        """Percentiles within 1 %; mean and maximum are exact."""
        counts = np.cumsum(self.bins)
        if not counts[-1]:
            return Spread.of([])
        places = [int(np.searchsorted(counts, share * counts[-1])) for share in (0.5, 0.9, 0.99)]
        p50, p90, p99 = (self.LEAST * 10 ** ((place + 0.5) / self.A_DECADE) for place in places)
        return Spread(int(counts[-1]), self.total / int(counts[-1]), p50, p90, p99, self.most)


@dataclass(frozen=True)
class Traffic:
    """The requests of one run, and the schemas that they ask for.

    Attributes:
        files: the schemas of ordinary requests.
        size: of the adversarial ones: "small", "large" or "both".
        malformed, hostile: shares of the requests.
        sampled: share of the requests whose masks are kept, to be compared.
        zipf: the exponent of the law.
    """

    files: Sequence[SchemaFile]
    count: int
    seed: int = 0
    size: str = "both"
    malformed: float = 0.01
    hostile: float = 0.01
    sampled: float = 0.01
    zipf: float = 1.0

    def requests(self) -> list[Request]:
        rng = random.Random(self.seed)
        ranked = list(range(len(self.files)))
        rng.shuffle(ranked)
        weights = [1 / (rank + 1) ** self.zipf for rank in range(len(ranked))]
        ordinary = rng.choices(ranked, weights, k=self.count)
        found = []
        for number in range(self.count):
            drawn = rng.random()
            if drawn < self.malformed:
                found.append(Request(number, "malformed", rng.randrange(len(self.broken))))
            elif drawn < self.malformed + self.hostile:
                found.append(Request(number, "adversarial", rng.randrange(self.kinds)))
            else:
                found.append(Request(number, "schema", ordinary[number]))
        return found

    def is_sampled(self, request: Request) -> bool:
        """Whether the masks of a request are to be compared."""
        return random.Random(f"sampled {self.seed} {request.number}").random() < self.sampled

    @property
    def broken(self) -> list[adversarial.Case]:
        return list(adversarial.malformed())

    @property
    def kinds(self) -> int:
        """Number of adversarial schemas."""
        return len(adversarial.KINDS) * (2 if self.size == "both" else 1)

    def case(self, request: Request) -> adversarial.Case:
        """The name of what a request asks for, and its schema; large ones are made anew each time."""
        if request.kind == "schema":
            file = self.files[request.which]
            return file.name, file.schema
        if request.kind == "malformed":
            return self.broken[request.which]
        make, small, large = adversarial.KINDS[request.which % len(adversarial.KINDS)]
        is_small = self.size == "small" or (self.size == "both" and request.which < len(adversarial.KINDS))
        return make(**(small if is_small else large))

    def document(self, vocabulary: Any, request: Request) -> list[int] | None:
        """The tokens of a request; None where there is no instance."""
        if request.kind != "schema" or not self.files[request.which].valid:
            return None
        rng = random.Random(f"document {self.seed} {request.number}")
        text = workloads.render_instance(rng.choice(self.files[request.which].valid))
        if rng.random() < 0.5:
            return tokenize_greedy(vocabulary, text)
        return tokenize_random(vocabulary, text, rng.random().hex())


@dataclass
class Worker:
    """What one thread has: a row for masks, and the times of all its masks but the first, and of its tokens.

    `known` has the compiled grammar last seen of each schema; threads share it, and it keeps none alive.
    """

    compiler: Any
    known: MutableMapping[tuple[str, int], Any]

    def __post_init__(self) -> None:
        self.bitmask = xgrammar.allocate_token_bitmask(1, self.compiler.vocabulary.size)
        self.fill, self.accept = Histogram(), Histogram()


def answer(traffic: Traffic, request: Request, worker: Worker) -> Answer:
    """Serve one request in this thread."""
    from equivalence.errors import HybridError
    from hybrid import GrammarMatcher

    found = Answer(request.number)
    _, schema = traffic.case(request)
    ids = traffic.document(worker.compiler.vocabulary, request)
    name = (request.kind, request.which)
    before = worker.known.get(name)
    cpu_began, began = thread_time(), perf_counter()
    try:
        compiled = worker.compiler.compile_json_schema(schema)
        matcher = GrammarMatcher(compiled)
        matcher.fill_next_token_bitmask(worker.bitmask)
    except Exception as error:  # noqa: BLE001 - a soak goes on and reports it
        found.error, found.message = type(error).__name__, str(error)[:300]
        found.expected = isinstance(error, HybridError)
        found.first, found.first_cpu = perf_counter() - began, thread_time() - cpu_began
        return found
    found.first, found.first_cpu = perf_counter() - began, thread_time() - cpu_began
    found.strategy = compiled.strategy
    found.source = "memory" if compiled is before else "disk" if "load" in compiled.timings else "made"
    worker.known[name] = compiled
    steps = _document(ids) if ids is not None else _walk(compiled.vocabulary, worker, traffic, request)
    try:
        _read(matcher, steps, worker, found, traffic.is_sampled(request))
    except Exception as error:  # noqa: BLE001
        found.error, found.message, found.expected = type(error).__name__, str(error)[:300], False
    return found


def _document(ids: list[int]) -> Iterator[int]:
    yield from ids


def _walk(vocabulary: Any, worker: Worker, traffic: Traffic, request: Request) -> Iterator[int]:
    """Tokens drawn from the mask that is in the worker's row when the next one is asked for."""
    rng = random.Random(f"walk {traffic.seed} {request.number}")
    walker = Walker(rng, vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
    octets = worker.bitmask.numpy()[0].view(np.uint8)
    for _ in range(WALK):
        allowed = np.unpackbits(octets, bitorder="little")[: vocabulary.size].view(np.bool_)
        if not allowed.any():
            return
        yield walker.draw_from(allowed)


def _read(matcher: Any, steps: Iterator[int], worker: Worker, found: Answer, sampled: bool) -> None:
    """Tokens and the masks after them; the first mask is there already."""
    row = worker.bitmask.numpy()[0]

    def keep() -> None:
        if sampled:
            found.digests.append(mask_name(row, worker.compiler.vocabulary.size))

    keep()
    for token in steps:
        began = perf_counter()
        is_accepted = matcher.accept_token(token)
        worker.accept.add(perf_counter() - began)
        if not is_accepted:
            return
        found.tokens += 1
        if sampled:
            found.ids.append(token)
        if matcher.is_terminated():
            return
        began = perf_counter()
        matcher.fill_next_token_bitmask(worker.bitmask)
        worker.fill.add(perf_counter() - began)
        keep()
    found.whole = True


def mask_name(row: Any, size: int) -> str:
    """A digest of a mask over so many ids."""
    return blake2b(workloads.mask_bits(row, size), digest_size=DIGEST_BYTES).hexdigest()
