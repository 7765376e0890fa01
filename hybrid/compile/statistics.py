"""What a compiler has done so far: counts, seconds by phase, strategies with their reasons, errors.

What: `GrammarCompiler.stats` returns the counts of a `Statistics`. Any thread may add to it. `OF_PROCESS` has
the sums of all compilers of the process, which `hybrid.metrics` exports.
When: to see in production what is compiled repeatedly, which grammars fall back to XGrammar, and why.
Limits: the counts start when the compiler is made, or the process starts or is forked. The times of single
calls are in the log, on level DEBUG.

Reasons contain numbers and parts of grammars, so their number would grow with the traffic. Therefore numbers
and quoted names are removed from them, and only the first `MOST_NAMES` different ones are counted separately.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from equivalence import forks
from hybrid.compile.durations import Durations
from hybrid.compiled import CompiledGrammar
from hybrid.json_schema import SchemaRefused
from hybrid.json_schema.dialects import ALL_KEYWORDS
from hybrid.xgrammar.relaxed import SchemaText, differences_of

MOST_NAMES = 64
"""At most this many reasons (for each strategy) and errors have names; the rest is counted under `OTHER`."""

MOST_CHARACTERS = 160
"""Length of one reason."""

OTHER = "other"

NO_SCHEMA = "none"
"""The label for the semantics of a grammar that is not a JSON schema."""

ON_DISK = ("hits", "misses", "shared", "overdue", "evictions", "writes", "damaged", "failures")
"""The events of the disk cache."""

MOST_UNREAD = 256
"""At most this many schemas wait until their relaxations are computed; others are not examined."""

MOST_SCHEMA_CHARACTERS = 100_000
"""Longer schemas are not examined for that. It is a hundred times the median of real ones."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER = re.compile(r"\d[\d_,.]*\d|\d")


class Statistics:
    """Sums over all calls of one compiler; thread-safe.

    Args:
        total: statistics that get the same events, too.
    """

    def __init__(self, total: Statistics | None = None) -> None:
        self._total = total
        self.keeps_schemas = False
        """Whether to keep schemas with XGrammar's semantics until `count_relaxations`."""
        self._begin()

    def _begin(self) -> None:
        self._events: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._reasons: dict[str, dict[str, int]] = {}
        self._errors: dict[str, int] = {}
        self._compile, self._first_mask = Durations(), Durations()
        self._refusals: Counter[str] = Counter()
        self._relaxations: Counter[str] = Counter()
        self._unread: deque[SchemaText] = deque()

    def reset(self) -> None:
        """Reset all counts: in a forked process they are the parent's."""
        with _lock:
            self._begin()

    def count(self, event: str) -> None:
        """Count an event: a name of `snapshot`, with the prefix "memory_" or "disk_" if it belongs there."""
        self._add_to_all(Statistics._count, event)

    def compiled(self, compiled: CompiledGrammar) -> None:
        """Count a grammar that was compiled."""
        labels = compiled.strategy, semantics_of(compiled)
        reason, timings = compiled.reason, compiled.timings
        self._add_to_all(Statistics._count_compiled, labels, reason, timings, compiled.schema)

    def loaded(self, compiled: CompiledGrammar) -> None:
        """Count a grammar that was read from disk."""
        self._add_to_all(Statistics._count_seconds, compiled.timings)

    def first_mask(self, labels: tuple[str, str], seconds: float) -> None:
        """Count the first mask of a grammar; the labels are its strategy and semantics."""
        self._add_to_all(lambda of: of._first_mask.add(labels, seconds))

    def failed(self, error: Exception) -> None:
        """Count a compilation that failed."""
        name = type(error).__name__
        self._add_to_all(lambda of: _add(of._errors, name, 1))
        if isinstance(error, SchemaRefused):
            self.refused([error.keyword])

    def refused(self, keywords: Iterable[str]) -> None:
        """Count a schema that was refused because of these keywords."""
        known = keywords_of(keywords)
        self._add_to_all(lambda of: of._refusals.update(known))

    def _add_to_all(self, count: Callable[..., None], *arguments: Any) -> None:
        """Count an event here and in the total."""
        with _lock:
            count(self, *arguments)
            if self._total is not None:
                count(self._total, *arguments)

    def count_relaxations(self) -> None:
        """Count what XGrammar leaves out of the schemas that were compiled since the last call."""
        while True:
            with _lock:
                if not self._unread:
                    return
                schema = self._unread.popleft()
            relaxed = differences_of(schema).relaxed
            with _lock:
                self._relaxations.update(keywords_of(one.keyword for one in relaxed))

    def snapshot(self) -> dict[str, Any]:
        """A new dict with all counts."""
        with _lock:
            events = self._events
            return {
                "compilations": events["compilations"],
                "shared": events["shared"],
                "promotions": {name: events[f"promotions_{name}"] for name in ("done", "given_up")},
                "overdue": events["overdue"],
                "cancelled": events["cancelled"],
                "memory": {name: events[f"memory_{name}"] for name in ("hits", "misses", "evictions")},
                "disk": {name: events[f"disk_{name}"] for name in ON_DISK},
                "seconds": dict(self._seconds),
                "strategies": {
                    strategy: {"count": sum(reasons.values()), "reasons": dict(reasons)}
                    for strategy, reasons in [*self._reasons.items()]  # a signal's handler may compile
                },
                "errors": dict(self._errors),
                "compile_seconds": self._compile.snapshot(),
                "first_mask_seconds": self._first_mask.snapshot(),
                "refusals": dict(self._refusals),
                "relaxations": dict(self._relaxations),
            }

    @property
    def unread(self) -> int:
        """Number of schemas whose relaxations were not counted, because there were too many or they were too
        long."""
        return self._events["unread"]

    # events are counted below, with the lock held

    def _count(self, event: str) -> None:
        self._events[event] += 1

    def _count_compiled(
        self, labels: tuple[str, str], reason: str, timings: dict[str, float],
        schema: SchemaText | None,
    ) -> None:  # fmt: skip
        self._events["compilations"] += 1
        _add(self._reasons.setdefault(labels[0], {}), grouped(reason), 1)
        self._count_seconds(timings)
        self._compile.add(labels, timings.get("total", 0.0))
        if schema is None:
            return
        if schema.left_out:
            self._relaxations.update(keywords_of(one.keyword for one in schema.left_out))
        elif schema.left_out is None and self.keeps_schemas:
            is_looked_at = len(self._unread) < MOST_UNREAD and len(schema.text) <= MOST_SCHEMA_CHARACTERS
            self._unread.append(schema) if is_looked_at else self._events.update(["unread"])

    def _count_seconds(self, timings: dict[str, float]) -> None:
        sums = self._seconds
        for phase, seconds in timings.items():  # there are few phases
            sums[phase] = sums.get(phase, 0.0) + seconds


_lock = forks.registered(threading.RLock(), forks.Order.BRIEF)
"""Protects the counts of all statistics. It is reentrant, because the garbage collector may call code that
counts."""

OF_PROCESS = Statistics()
"""The sums of all compilers of this process."""


forks.in_child(OF_PROCESS.reset)


def semantics_of(compiled: CompiledGrammar) -> str:
    """The semantics of a grammar's schema: one of `hybrid.values.budget.SEMANTICS`, or `NO_SCHEMA`."""
    if compiled.schema is None:
        return NO_SCHEMA
    return "xgrammar" if compiled.schema.left_out is None else "json-schema"


def keywords_of(found: Iterable[str]) -> set[str]:
    """The keywords that JSON Schema defines, and `OTHER` for all others, because a schema may have any
    name."""
    return {keyword if keyword in ALL_KEYWORDS else OTHER for keyword in found}


def grouped(reason: str) -> str:
    """A reason with numbers replaced by N and quoted names by '...', which is the same for many grammars."""
    # numbers and names are replaced in a bounded part only, as messages may quote whole grammars
    return _without_names(reason[: 4 * MOST_CHARACTERS])


@lru_cache(maxsize=256)  # most grammars have the same reason, and the patterns take 20 us
def _without_names(reason: str) -> str:
    short = _NUMBER.sub("N", _QUOTED.sub("'...'", reason))
    return " ".join(short.split())[:MOST_CHARACTERS]


def _add(sums: dict[str, Any], name: str, value: float) -> None:
    if name not in sums and len(sums) >= MOST_NAMES:
        name = OTHER
    sums[name] = sums.get(name, 0) + value
