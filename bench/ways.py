"""The ways to run one grammar, and what each costs: compiling it, then the masks and tokens of documents.

What: `WAYS` names them; `Costs` measures one way on one schema; `total` says what a way takes for any number
of documents.
When: in `bench.strategies`.
Limits: one thread. CPU time is that of the measuring thread, told once for each document; it is shared among
masks and tokens as wall time is. What clocks and the loop around them cost is measured on a matcher that does
nothing, and subtracted. After the documents that were measured, each token costs what it did in the second
half of them (the median over blocks of documents): too much rather than too little for a classifier that
still meets what is new then.
"""

from __future__ import annotations

import copy
import gc
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import xgrammar

from bench import workloads

Ids = Sequence[int]


@dataclass(frozen=True)
class Way:
    """One way: its name in tables, and the arguments of `GrammarCompiler`."""

    name: str
    strategy: str
    on_demand: bool = False

    def compiler(self, vocabulary: Any) -> Any:
        """A compiler of this way, one thread, no caches."""
        return workloads.hybrid_compiler(vocabulary, self.strategy, 1, self.on_demand)


AUTO = Way("auto", "auto")
ENGINE = Way("engine", "engine")
WAYS = (
    Way("classifier", "classifier"),
    Way("on demand", "classifier", on_demand=True),
    Way("representatives", "representatives"),
    ENGINE,
    AUTO,
)

CLOCKS = ("cpu", "wall")
PARTS = ("masks", "masks and tokens")


@dataclass
class Document:
    """Seconds of one document: of its matcher and masks, of its tokens; and of both in CPU time."""

    tokens: int
    fill: float
    accept: float
    cpu: float

    def seconds(self, clock: str, part: str) -> float:
        """Of "masks", or "masks and tokens"; in CPU time, shared as wall time is, or in wall time."""
        wall = self.fill if part == "masks" else self.fill + self.accept
        if clock == "wall" or not self.fill + self.accept:
            return wall
        return wall * self.cpu / (self.fill + self.accept)


@dataclass
class Costs:
    """What one way takes on one schema; `compile` and `compile_cpu` hold a number for each repetition."""

    way: str
    strategy: str = ""
    reason: str = ""
    error: str = ""
    compile: list[float] = field(default_factory=list)
    compile_cpu: list[float] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    bytes: int = 0

    @property
    def known(self) -> bool:
        """Whether there is something to compare with other ways."""
        return not self.error and bool(self.compile)

    def compile_seconds(self, clock: str) -> float:
        """The median of all repetitions."""
        return median(self.compile if clock == "wall" else self.compile_cpu)

    def total(self, count: int, lengths: Sequence[int], clock: str, part: str) -> float:
        """Seconds of compiling and of `count` documents.

        Args:
            count: documents.
            lengths: tokens of each document that there is; the others have the mean of them.
            clock: "cpu" or "wall".
            part: "masks" or "masks and tokens".
        """
        seconds = self.compile_seconds(clock)
        first = self.documents[:count]
        seconds += sum(one.seconds(clock, part) for one in first)
        if count > len(first):
            further = sum(lengths[len(first) : count])
            further += max(count - max(len(lengths), len(first)), 0) * sum(lengths) / max(len(lengths), 1)
            seconds += further * self.later(clock, part)
        return seconds

    def later(self, clock: str, part: str) -> float:
        """Seconds of one token: the median over the blocks in the second half of the documents."""
        starts = range(0, len(self.documents), BLOCK)
        rates = []
        for at in starts[len(starts) // 2 :]:
            block = self.documents[at : at + BLOCK]
            seconds = sum(one.seconds(clock, part) for one in block)
            rates.append(seconds / max(sum(one.tokens for one in block), 1))
        return median(rates) if rates else 0.0

    def record(self, lengths: Sequence[int]) -> dict[str, Any]:
        """As it is written to a record: the documents summed up at some of their numbers."""
        found = asdict(self)
        found["documents"] = len(self.documents)
        if self.known:
            found["totals"] = {
                clock: {
                    part: {str(count): self.total(count, lengths, clock, part) for count in MARKS}
                    for part in PARTS
                }
                for clock in CLOCKS
            }
            found["later"] = {clock: {part: self.later(clock, part) for part in PARTS} for clock in CLOCKS}
        return found


BLOCK = 5
"""Documents of one way, before the next way has its turn."""

MARKS = (0, 1, 2, 5, 10, 20, 50, 100, 1000)
"""Numbers of documents at which a record tells totals; 0 is compiling alone."""


class _Nothing:
    """A matcher that does nothing: what it takes is what measuring costs."""

    def fill_next_token_bitmask(self, bitmask: Any) -> bool:
        return True

    def accept_token(self, token_id: int) -> bool:
        return True


@dataclass(frozen=True)
class Overhead:
    """What measuring adds to each token: seconds in its mask and in its step, and CPU seconds in both."""

    fill: float = 0.0
    accept: float = 0.0
    cpu: float = 0.0

    @classmethod
    def measured(cls, tokens: int = 2000, times: int = 15) -> Overhead:
        found = [_run(_Nothing, list(range(tokens)), None) for _ in range(times)]
        return cls(
            *(median(getattr(one, name) for one in found) / tokens for name in ("fill", "accept", "cpu"))
        )


def run_document(compiled: Any, ids: Ids, bitmask: Any, overhead: Overhead) -> Document:
    """The times of one document on a new matcher, a mask before each token."""
    from hybrid import GrammarMatcher

    found = _run(lambda: GrammarMatcher(compiled), ids, bitmask)
    return Document(
        found.tokens,
        max(found.fill - overhead.fill * found.tokens, 0.0),
        max(found.accept - overhead.accept * found.tokens, 0.0),
        max(found.cpu - overhead.cpu * found.tokens, 0.0),
    )


def _run(matcher_of: Any, ids: Ids, bitmask: Any) -> Document:
    cpu_began = thread_time()
    began = perf_counter()
    matcher = matcher_of()
    fill, accept = perf_counter() - began, 0.0
    for token in ids:
        began = perf_counter()
        matcher.fill_next_token_bitmask(bitmask)
        filled = perf_counter()
        matcher.accept_token(token)
        accept += perf_counter() - filled
        fill += filled - began
    return Document(len(ids), fill, accept, thread_time() - cpu_began)


def accepted(compiled: Any, ids: Sequence[int]) -> list[int]:
    """A document up to the first token that is refused, and a stop token where it may end."""
    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    found: list[int] = []
    for token in ids:
        if not matcher.accept_token(token):
            return found
        found.append(token)
    stop = compiled.vocabulary.stop_token_ids[0]
    return [*found, stop] if matcher.accept_token(stop) else found


def mask_digest(compiled: Any, ids: Ids, bitmask: Any) -> bytes:
    """A digest of all masks before the tokens of a document."""
    from hybrid import GrammarMatcher

    matcher, digest = GrammarMatcher(compiled), blake2b(digest_size=16)
    row = bitmask.numpy()[0]
    for token in ids:
        row.fill(-1)  # a fill has to write the whole row
        matcher.fill_next_token_bitmask(bitmask)
        digest.update(row)
        if not matcher.accept_token(token):
            raise AssertionError(f"token {token} was refused in a document that another way accepts")
    return digest.digest()


class KeptAsBefore:
    """Lets each compilation meet the walks that earlier schemas left, and none of its own repetitions."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self._before = copy.copy(vocabulary.kept_walks.__dict__)
        self._arrays = {name: copy.deepcopy(self._before[name]) for name in ("_young", "_old")}

    def restore(self) -> None:
        """Put the walks back as they were."""
        self._vocabulary.kept_walks.__dict__.update(self._before)
        self._vocabulary.kept_walks.__dict__.update(copy.deepcopy(self._arrays))


def compile_timed(compiler: Any, schema: Any, costs: Costs) -> Any:
    """Compile a schema once more; None, and the error in `costs`, where it is refused."""
    # what garbage the work before has left is not to be collected inside the measured time
    gc.collect()
    cpu_began, began = thread_time(), perf_counter()
    try:
        compiled = compiler.compile_json_schema(schema, strict_mode=False)
    except Exception as error:  # noqa: BLE001 - a way that refuses is left out, by name
        costs.error = f"{type(error).__name__}: {error}"
        return None
    costs.compile.append(perf_counter() - began)
    costs.compile_cpu.append(thread_time() - cpu_began)
    costs.strategy, costs.reason = compiled.strategy, compiled.reason
    costs.phases = dict(compiled.timings)
    return compiled


def serve_in_turns(
    compiled: Mapping[str, Any],
    documents: Sequence[Ids],
    costs: Mapping[str, Costs],
    overhead: Overhead,
    seconds: float,
) -> None:
    """Run documents on several ways, a block on each in turn; a way stops where its seconds are over.

    The first document is always run. Turns are taken in random order: who comes after representatives finds
    other memory in the processor's caches than who comes after a classifier (8 % of a mask).
    """
    left = dict.fromkeys(compiled, seconds)
    ways, rng = list(compiled), random.Random(len(documents))
    gc.collect()
    for at in range(0, len(documents), BLOCK):
        rng.shuffle(ways)
        for name in ways:
            grammar = compiled[name]
            bitmask = xgrammar.allocate_token_bitmask(1, grammar.vocabulary.size)
            for ids in documents[at : at + BLOCK]:
                if left[name] <= 0:
                    break
                began = perf_counter()
                costs[name].documents.append(run_document(grammar, ids, bitmask, overhead))
                left[name] -= perf_counter() - began
    for name, grammar in compiled.items():
        costs[name].bytes = grammar.memory_size_bytes
