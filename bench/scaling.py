"""How the time for token classes grows: with the properties of a schema, and with the vocabulary.

What: `made_schema` makes schemas with any number of properties. `measure_growth` measures growth with both,
and returns the exponents of the growth (`exponent`).
When: ``python -m bench classes --scaling``.
Limits: the schemas are artificial. The smaller vocabularies are the first ids of a real one, which are its
most frequent tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xgrammar

from equivalence import Vocabulary

PROPERTIES = (1, 10, 100, 300, 1000, 3000)
SMALLEST_VOCABULARY = 16_384

NOUNS = (
    "name", "price", "active", "kind", "tags", "place", "count", "note", "when", "code", "extra", "ratio",
)  # fmt: skip

Measure = Callable[[xgrammar.Grammar, str, Vocabulary], dict[str, Any]]
"""Measures one grammar; returns the columns of a row, or its ``refusal``."""


def made_schema(properties: int) -> dict[str, Any]:
    """Make an object with this many properties of mixed types, half of them required. Equal arguments give
    equal schemas."""
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
    """Return a row for each vocabulary and number of properties."""
    for count in counts:
        grammar = xgrammar.Grammar.from_json_schema(json.dumps(made_schema(count)))
        for name, vocabulary in vocabularies.items():
            yield {"series": name, "size": count, **measure(grammar, "acceptance", vocabulary)}


def by_vocabulary(
    vocabulary: Vocabulary, grammars: dict[str, xgrammar.Grammar], measure: Measure
) -> Iterator[dict[str, Any]]:
    """Return a row for each grammar and size of the vocabulary: its first ids, in sizes that double up to all
    ids."""
    size = min(SMALLEST_VOCABULARY, vocabulary.size)
    while True:
        part = Vocabulary.from_bytes(vocabulary.tokens[:size]).prepare()
        for name, grammar in grammars.items():
            yield {"series": name, "size": size, **measure(grammar, "acceptance", part)}
        if size == vocabulary.size:
            return
        size = min(2 * size, vocabulary.size)


def exponent(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the slope of CPU time over size in logarithms (least squares); None for fewer than two
    points."""
    points = [(row["size"], row["cpu_seconds"]) for row in rows if row.get("cpu_seconds")]
    if len({size for size, _ in points}) < 2:
        return None
    sizes, seconds = np.log(np.array(points, np.float64)).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def measure_growth(
    vocabularies: dict[str, Vocabulary], grammars: dict[str, xgrammar.Grammar], measure: Measure
) -> dict[str, Any]:
    """Measure growth with the properties on all vocabularies, and with the largest vocabulary on all
    grammars."""
    largest = max(vocabularies.values(), key=lambda vocabulary: vocabulary.size)
    found: dict[str, Any] = {}
    for name, rows in (
        ("properties", list(by_properties(vocabularies, measure))),
        ("vocabulary", list(by_vocabulary(largest, grammars, measure))),
    ):
        series = dict.fromkeys(row["series"] for row in rows)
        powers = {one: exponent([row for row in rows if row["series"] == one]) for one in series}
        found[name] = {"rows": rows, "exponents": powers}
    return found
