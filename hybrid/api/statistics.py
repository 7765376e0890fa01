"""What a compiler has done so far: counts, seconds by phase, strategies with their reasons, errors.

What: `Statistics` behind `GrammarCompiler.stats`, added to from any thread.
When: to see in production what is compiled again and again, what falls back and why.
Limits: sums since the compiler was made; no times of single calls (the log of level DEBUG has them).

Reasons name numbers and parts of grammars, so they would become more with the traffic: numbers and quoted
names are left out of them, and of those that then still differ the first `MOST_NAMES` are told apart.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from functools import lru_cache
from typing import Any

from equivalence import forking
from hybrid.api.compiled import CompiledGrammar

MOST_NAMES = 64
"""Of reasons of one strategy, of phases and of errors; the rest is counted under `OTHER`."""

MOST_CHARACTERS = 160
"""Of one reason."""

OTHER = "other"

ON_DISK = ("hits", "misses", "shared", "overdue", "evictions", "writes", "damaged", "failures")
"""What is counted of the folder."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER = re.compile(r"\d[\d_,.]*\d|\d")


class Statistics:
    """Sums over all calls of one compiler; thread-safe."""

    def __init__(self) -> None:
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)
        self._events: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._reasons: dict[str, dict[str, int]] = {}
        self._errors: dict[str, int] = {}

    def count(self, event: str) -> None:
        """Add one to an event; the names are those of `snapshot`, before them "memory_" or "disk_"."""
        with self._lock:
            self._events[event] += 1

    def compiled(self, compiled: CompiledGrammar) -> None:
        """Add a grammar that was compiled just now."""
        reason = grouped(compiled.reason)
        with self._lock:
            self._events["compilations"] += 1
            _add(self._reasons.setdefault(compiled.strategy, {}), reason, 1)
            self._add_seconds(compiled)

    def loaded(self, compiled: CompiledGrammar) -> None:
        """Add a grammar that was read from disk just now."""
        with self._lock:
            self._add_seconds(compiled)

    def failed(self, error: Exception) -> None:
        """Add a compilation that ended with an error."""
        with self._lock:
            _add(self._errors, type(error).__name__, 1)

    def _add_seconds(self, compiled: CompiledGrammar) -> None:
        for phase, seconds in compiled.timings.items():
            _add(self._seconds, phase, seconds)

    def snapshot(self) -> dict[str, Any]:
        """The sums, in objects of the caller's own."""
        with self._lock:
            events = self._events
            return {
                "compilations": events["compilations"],
                "shared": events["shared"],
                "promotions": {
                    name: events[f"promotions_{name}"] for name in ("done", "given_up", "dropped")
                },
                "overdue": events["overdue"],
                "cancelled": events["cancelled"],
                "memory": {name: events[f"memory_{name}"] for name in ("hits", "misses", "evictions")},
                "disk": {name: events[f"disk_{name}"] for name in ON_DISK},
                "seconds": dict(self._seconds),
                "strategies": {
                    strategy: {"count": sum(reasons.values()), "reasons": dict(reasons)}
                    for strategy, reasons in self._reasons.items()
                },
                "errors": dict(self._errors),
            }


def grouped(reason: str) -> str:
    """A reason without what differs from grammar to grammar: numbers are N, quoted names are '...'."""
    # numbers and names are replaced in a bounded part only, as messages may quote whole grammars
    return _without_names(reason[: 4 * MOST_CHARACTERS])


@lru_cache(maxsize=256)  # all grammars that are walked have one reason, and the patterns take 20 us
def _without_names(reason: str) -> str:
    short = _NUMBER.sub("N", _QUOTED.sub("'...'", reason))
    return " ".join(short.split())[:MOST_CHARACTERS]


def _add(sums: dict[str, Any], name: str, value: float) -> None:
    if name not in sums and len(sums) >= MOST_NAMES:
        name = OTHER
    sums[name] = sums.get(name, 0) + value
