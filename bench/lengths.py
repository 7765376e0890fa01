"""Strings with bounds: a long string (100,000 characters), and escapes close to a bound.

What: equimask with both meanings of schemas, XGrammar and llguidance compile an object with one string,
without a bound and with one. Masks are timed after the opening quote, in the middle, and up to the bound.
Also strings of escapes (``\\n``, ``\\"``, ``\\u00e9``) up to short bounds, where a token may have one escape
too many.
When: ``python -m bench lengths --vocabulary SPEC --json FILE``.
Limits: each engine has its own process (`bench.peers.alone`), which reads one text, so each timed mask is the
first one at its place. Our masks are compared with XGrammar's along the whole text. With XGrammar's meaning,
a string with a bound has no escapes, so both refuse some texts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Annotated, Any

import typer

from bench import options, report, workloads
from bench.peers import alone
from bench.peers.alone import Asked
from bench.report import Spread
from bench.reporting.answers import publish
from hybrid.testing.comparison import Comparison
from hybrid.testing.segmentation import tokenize_greedy

MASKS = 20
"""How many masks are timed at each place."""

WORDS = (
    "the", "value", "of", "a", "long", "text", "that", "nobody", "reads", "twice", "and", "more", "words",
)  # fmt: skip
ESCAPES = ("\\n", '\\"', "\\u00e9", "\\\\", "a", "\\t", " b")

Places = Mapping[str, Sequence[int]]
"""For each name of a place, the numbers of tokens after which masks are timed."""


def asked_of(bound: int | None) -> Asked:
    """Return what engines are asked: an object with one string of at most this many characters."""
    string = {"type": "string"} if bound is None else {"type": "string", "maxLength": bound}
    return Asked(schema={
        "type": "object", "properties": {"text": string}, "required": ["text"], "additionalProperties": False,
    })  # fmt: skip


def text_of(parts: Sequence[str], characters: int, seed: int) -> list[bytes]:
    """Return pieces of a string with this many characters; each of the last pieces is one character of the
    value."""
    rng = random.Random(seed)
    found: list[bytes] = []
    length = 0
    while length < characters:
        part = rng.choice(parts)
        part = f"{part} " if parts is WORDS else part
        size = 1 if part[0] == "\\" else len(part)
        if length + size <= characters:
            found.append(part.encode())
            length += size
        else:
            parts = ("a",)
    return found


def tokens_of(vocabulary: Any, pieces: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """Return the token ids of an object whose string has these pieces, and the number of tokens up to each
    piece."""
    ids = tokenize_greedy(vocabulary, b'{"text": "')
    ends = [len(ids)]
    for piece in pieces:
        ids += tokenize_greedy(vocabulary, piece)
        ends.append(len(ids))
    return ids, ends


def _work(way: alone.Begin, asked: Asked, ids: Sequence[int], places: Places) -> dict[str, Any]:
    """Measure the seconds of a first mask, and of the masks at places."""
    begun = way(asked)
    if begun.calls is None:
        return alone.refusal_of(begun)
    wanted = {number: name for name, numbers in places.items() for number in numbers}
    found: dict[str, list[float]] = {name: [] for name in places}
    fill, accept = begun.calls.fill, begun.calls.accept
    for number in range(len(ids) + 1):
        if number in wanted:
            began = perf_counter()
            fill()
            found[wanted[number]].append(perf_counter() - began)
        if number < len(ids) and not accept(ids[number]):
            return {"refusal": f"token {number} of {len(ids)} of the text"}
    masks = {name: Spread.of(some) for name, some in found.items()}
    return {"first_mask": begun.seconds, "first_mask_cpu": begun.cpu_seconds, "masks": masks}


def measure(
    vocabulary: Any, title: str, asked: Asked, ids: Sequence[int], places: Places, seconds: float
) -> dict[str, Any]:
    """Return one row: a schema and a text, on every engine."""
    found = alone.compared(vocabulary, asked, [ids], seconds)
    compared = found or Comparison()
    engines: dict[str, Any] = {}
    for engine in alone.engines():
        engines[engine] = alone.alone(engine, vocabulary, lambda way: _work(way, asked, ids, places), seconds)
    return {
        "row": title, "places": list(places), "tokens": len(ids), "engines": engines, "masks": compared.masks,
        "contradictions": compared.contradiction_count, "differences": compared.difference_count,
        "compared": found is not None,
    }  # fmt: skip


def long_rows(vocabulary: Any, longest: int, seconds: float) -> list[dict[str, Any]]:
    """Measure a string without a bound, and one with a long bound, read up to this many characters."""
    pieces = text_of(WORDS, longest, 1)
    ids, ends = tokens_of(vocabulary, pieces)
    begin, middle = ends[0], ends[len(pieces) // 2]
    places: Places = {
        "behind the quote": range(begin, begin + MASKS), "in the middle": range(middle, middle + MASKS),
        "up to the bound": range(len(ids) - MASKS + 1, len(ids) + 1),
    }  # fmt: skip
    return [
        measure(vocabulary, title, asked_of(bound), ids, places, seconds)
        for title, bound in (("no bound", None), (f"maxLength {longest:,}", longest))
    ]


def escape_rows(vocabulary: Any, bounds: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Measure strings of escapes up to bounds."""
    rows = []
    for bound in bounds:
        ids, ends = tokens_of(vocabulary, text_of(ESCAPES, bound, bound))
        near = ends[-9:] if len(ends) > 9 else ends
        places: Places = {"up to 8 pieces before": near[:-4], "the last 3, and none": near[-4:]}
        title = f"escapes, maxLength {bound:,}"
        rows.append(measure(vocabulary, title, asked_of(bound), ids, places, seconds))
    return rows


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    longest: Annotated[int, typer.Option(min=100, help="Characters of the long bound.")] = 100_000,
    bound: Annotated[list[int] | None, typer.Option(help="Of strings of escapes; repeatable.")] = None,
    seconds: Annotated[float, typer.Option(help="After which an engine is ended.")] = 240.0,
) -> None:
    """Measure strings with bounds: long ones, and escapes near bounds, compared with XGrammar and
    llguidance."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        loaded = workloads.load_vocabulary(vocabulary).prepare()
    rows = [*long_rows(loaded, longest, seconds), *escape_rows(loaded, bound or (16, 64, 250), seconds)]
    exact = not any(row["differences"] for row in rows)
    publish(console, json, "lengths", arguments, {"rows": rows}, exact)
