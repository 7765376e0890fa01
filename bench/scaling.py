"""How the time for token classes grows: with the properties of a schema, and with the vocabulary.

What: `made_schema` writes schemas of any number of properties; `by_properties` and `by_vocabulary` measure
along both, `exponent` says with which power of the size the time grows, `draw_growth` draws it (matplotlib).
When: ``python -m bench classes --scaling``.
Limits: the schemas are made, not met; the smaller vocabularies are the first ids of a real one, which are
its most frequent tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xgrammar

from equivalence import Vocabulary

PROPERTIES = (1, 10, 100, 300, 1000, 3000)
SMALLEST_VOCABULARY = 16_384

NOUNS = (
    "name",
    "price",
    "active",
    "kind",
    "tags",
    "place",
    "count",
    "note",
    "when",
    "code",
    "extra",
    "ratio",
)

Measure = Callable[[xgrammar.Grammar, Vocabulary], dict[str, Any]]
"""What measures one grammar: the columns of a row."""


def made_schema(properties: int) -> dict[str, Any]:
    """An object with so many properties of mixed types, half of them required; equal every time."""
    kinds: tuple[Callable[[int], dict[str, Any]], ...] = (
        lambda i: {"type": "string"},
        lambda i: {"type": "number"},
        lambda i: {"type": "boolean"},
        lambda i: {"enum": [f"kind {i}", f"other {i % 7}", i, None]},
        lambda i: {"type": "array", "items": {"type": "string"}},
        lambda i: {
            "type": "object",
            "properties": {"street": {"type": "string"}, f"number_{i % 5}": {"type": "integer"}},
            "required": ["street"],
            "additionalProperties": False,
        },
        lambda i: {"type": "integer"},
        lambda i: {"type": "string", "maxLength": 5 + i % 50},
        lambda i: {"type": "string", "format": "date"},
        lambda i: {"type": "string", "pattern": f"^[A-Z]{{{1 + i % 3}}}-[0-9]{{2,4}}$"},
        lambda i: {"anyOf": [{"type": "integer"}, {"const": f"none {i % 11}"}]},
        lambda i: {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2 + i % 4},
    )
    names = [f"{NOUNS[i % len(NOUNS)]}_{i}" for i in range(properties)]
    return {
        "type": "object",
        "properties": {name: kinds[i % len(kinds)](i) for i, name in enumerate(names)},
        "required": names[::2],
        "additionalProperties": False,
    }


def by_properties(
    vocabularies: dict[str, Vocabulary], measure: Measure, counts: Sequence[int] = PROPERTIES
) -> Iterator[dict[str, Any]]:
    """One row for each vocabulary and number of properties."""
    for count in counts:
        began = perf_counter()
        grammar = xgrammar.Grammar.from_json_schema(json.dumps(made_schema(count)))
        parsing = perf_counter() - began
        for name, vocabulary in vocabularies.items():
            yield {"series": name, "size": count, "parse_seconds": parsing, **measure(grammar, vocabulary)}


def by_vocabulary(
    vocabulary: Vocabulary, grammars: dict[str, xgrammar.Grammar], measure: Measure
) -> Iterator[dict[str, Any]]:
    """One row for each grammar and size of the vocabulary: its first ids, doubled up to all of them."""
    size = min(SMALLEST_VOCABULARY, vocabulary.size)
    while True:
        part = Vocabulary.from_bytes(vocabulary.tokens[:size]).prepare()
        for name, grammar in grammars.items():
            yield {"series": name, "size": size, **measure(grammar, part)}
        if size == vocabulary.size:
            return
        size = min(2 * size, vocabulary.size)


def exponent(rows: Sequence[dict[str, Any]]) -> float | None:
    """The slope of CPU time over size, both as logarithms (least squares); None for fewer than two points."""
    points = [(row["size"], row["cpu_seconds"]) for row in rows if row.get("cpu_seconds")]
    if len({size for size, _ in points}) < 2:
        return None
    sizes, seconds = np.log(np.array(points, np.float64)).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def require_matplotlib() -> None:
    """Fail before anything is measured.

    Raises:
        ValueError: matplotlib is missing; the message says how to get it.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError(
            f"pictures need matplotlib ({error}); install it with: pip install 'equimask[bench]'"
        ) from error
    matplotlib.use("Agg")


def draw_growth(rows: Iterable[dict[str, Any]], path: Path, *, title: str, size_label: str) -> None:
    """CPU seconds over size, a line for each series, beside a line that grows like the size.

    Args:
        rows: with ``series``, ``size`` and ``cpu_seconds``; a row without was refused and is left out.
        path: of the picture; the ending chooses the format.
        title: above the picture.
        size_label: what the horizontal axis counts, with its unit.
    """
    from matplotlib.figure import Figure

    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.get("cpu_seconds"):
            series.setdefault(row["series"], []).append((row["size"], row["cpu_seconds"]))
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, points in series.items():
        axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=name)
    _draw_guide(axes, [point for points in series.values() for point in points])
    axes.set_xlabel(size_label)
    axes.set_ylabel("CPU time for token classes, one thread [s]")
    axes.set_title(title)
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.legend(loc="outside right upper")  # beside the lines, not on them
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _draw_guide(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    if not points:
        return
    begin, end = min(size for size, _ in points), max(size for size, _ in points)
    low = min(seconds for _, seconds in points)
    axes.loglog([begin, end], [low, low * end / begin], "k:", alpha=0.6, label="grows like the size")
