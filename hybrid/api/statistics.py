"""What a compiler has done so far: counts, seconds by phase, strategies with their reasons, errors.

What: `Statistics` behind `GrammarCompiler.stats`, added to from any thread; `OF_PROCESS` has the sums of all
compilers of the process, which is what `hybrid.metrics` shows.
When: to see in production what is compiled again and again, what falls back and why.
Limits: sums since the compiler was made, or the process began or was forked; times of single calls are in the
log of level DEBUG.

Reasons name numbers and parts of grammars, so they would become more with the traffic: numbers and quoted
names are left out of them, and of those that then still differ the first `MOST_NAMES` are told apart.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from equivalence import forking
from hybrid.api.compiled import CompiledGrammar
from hybrid.api.durations import Durations
from hybrid.json_schema import SchemaRefused
from hybrid.json_schema.dialects import ALL_KEYWORDS
from hybrid.xgrammar.relaxed import SchemaText, find_differences

MOST_NAMES = 64
"""Of reasons of one strategy, of phases and of errors; the rest is counted under `OTHER`."""

MOST_CHARACTERS = 160
"""Of one reason."""

OTHER = "other"

NO_SCHEMA = "none"
"""What a grammar that is no schema means, as a label."""

ON_DISK = ("hits", "misses", "shared", "overdue", "evictions", "writes", "damaged", "failures")
"""What is counted of the folder."""

MOST_UNREAD = 256
"""Schemas whose relaxations are found when somebody looks: new ones beyond are not looked at."""

MOST_SCHEMA_CHARACTERS = 100_000
"""Of a schema that is looked at for that: a hundred times the median of real ones."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER = re.compile(r"\d[\d_,.]*\d|\d")


class Statistics:
    """Sums over all calls of one compiler; thread-safe.

    Args:
        total: is told the same.
    """

    def __init__(self, total: Statistics | None = None) -> None:
        self._total = total
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)
        self.looks_at_schemas = False
        """Whether schemas in XGrammar's meaning are kept until `look_at_schemas`."""
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

    def begin_anew(self) -> None:
        """Forget all sums: in a forked process they are the parent's."""
        with self._lock:
            self._begin()

    def count(self, event: str) -> None:
        """Add one to an event; the names are those of `snapshot`, before them "memory_" or "disk_"."""
        with self._lock:
            self._events[event] += 1
        if self._total is not None:
            self._total.count(event)

    def compiled(self, compiled: CompiledGrammar) -> None:
        """Add a grammar that was compiled just now."""
        reason = grouped(compiled.reason)
        labels = compiled.strategy, semantics_of(compiled)
        schema = compiled.schema
        with self._lock:
            self._events["compilations"] += 1
            _add(self._reasons.setdefault(compiled.strategy, {}), reason, 1)
            self._add_seconds(compiled)
            self._compile.add(labels, compiled.timings.get("total", 0.0))
            if schema is not None and schema.left_out is not None:
                self._relaxations.update(keywords_of(one.keyword for one in schema.left_out))
            elif schema is not None and self.looks_at_schemas:
                is_looked_at = len(self._unread) < MOST_UNREAD and len(schema.text) <= MOST_SCHEMA_CHARACTERS
                self._unread.append(schema) if is_looked_at else self._events.update(["unread"])
        if self._total is not None:
            self._total.compiled(compiled)

    def loaded(self, compiled: CompiledGrammar) -> None:
        """Add a grammar that was read from disk just now."""
        with self._lock:
            self._add_seconds(compiled)
        if self._total is not None:
            self._total.loaded(compiled)

    def first_mask(self, labels: tuple[str, str], seconds: float) -> None:
        """Add the first mask of a grammar of this strategy and meaning."""
        with self._lock:
            self._first_mask.add(labels, seconds)
        if self._total is not None:
            self._total.first_mask(labels, seconds)

    def failed(self, error: Exception) -> None:
        """Add a compilation that ended with an error."""
        with self._lock:
            _add(self._errors, type(error).__name__, 1)
            if isinstance(error, SchemaRefused):
                self._refusals.update(keywords_of([error.keyword]))
        if self._total is not None:
            self._total.failed(error)

    def refused(self, keywords: Iterable[str]) -> None:
        """Add a schema that was refused for these keywords."""
        found = keywords_of(keywords)
        with self._lock:
            self._refusals.update(found)
        if self._total is not None:
            self._total.refused(found)

    def look_at_schemas(self) -> None:
        """Count what XGrammar leaves out of the schemas that were compiled since the last look."""
        while True:
            with self._lock:
                if not self._unread:
                    return
                schema = self._unread.popleft()
            relaxed = find_differences(
                schema.text, strict_mode=schema.strict_mode, any_order=schema.any_order
            ).relaxed
            with self._lock:
                self._relaxations.update(keywords_of(one.keyword for one in relaxed))

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
                "compile_seconds": self._compile.snapshot(),
                "first_mask_seconds": self._first_mask.snapshot(),
                "refusals": dict(self._refusals),
                "relaxations": dict(self._relaxations),
            }

    @property
    def unread(self) -> int:
        """Schemas whose relaxations were not counted, as there were too many or they are too long."""
        return self._events["unread"]


OF_PROCESS = Statistics()
"""The sums of all compilers of this process."""

forking.in_child(OF_PROCESS.begin_anew)


def semantics_of(compiled: CompiledGrammar) -> str:
    """What the schema of a grammar means: a name of `hybrid.compile.strategy.SEMANTICS`, or `NO_SCHEMA`."""
    if compiled.schema is None:
        return NO_SCHEMA
    return "xgrammar" if compiled.schema.left_out is None else "json-schema"


def keywords_of(found: Iterable[str]) -> set[str]:
    """Those of JSON Schema among some keywords, and `OTHER` for all others: a schema may have any."""
    return {keyword if keyword in ALL_KEYWORDS else OTHER for keyword in found}


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
