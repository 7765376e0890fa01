"""All engines side by side on the same schemas: times, refusals, and on how many schemas ours is faster.

What: `spreads` sums up the requests of `bench.request` by engine and kind of time. `standings` counts what
each engine refuses, and on what share of the schemas ours is faster; `print_standings` prints it.
When: in `bench.schemas`.
Limits: an engine's times are those of the schemas that it accepts, so it may have fewer schemas than ours.
"Faster" compares the schemas that both have a time for. If an engine was given up on, the bound counts as its
time, which is too low. Schemas with a difference of masks are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from bench.report import Spread, say
from bench.request import Request

OURS = "ours"

Requests = Sequence[Mapping[str, Request]]
"""For each schema, the request on each engine."""


def engines(requests: Requests) -> list[str]:
    """Return the names of engines: ours first, the others sorted."""
    names = {name for one in requests for name in one}
    return sorted(names, key=lambda name: (name != OURS, name))


def first_masks(requests: Requests, engine: str) -> list[float]:
    """Return the seconds to the first mask; for requests that were given up, the bound."""
    return _times(requests, engine, "first_mask")


def spreads(requests: Requests) -> dict[str, Spread]:
    """Sum up seconds by kind of time and by engine."""
    found: dict[str, Spread] = {}
    for title, name in (
        ("first mask", "first_mask"),
        ("first mask, CPU", "first_mask_cpu"),
        ("first mask and one document", "document"),
        ("first mask and one document, CPU", "document_cpu"),
    ):
        for engine in engines(requests):
            head, *rest = title.split(", ")
            found[", ".join((head, engine, *rest))] = Spread.of(_times(requests, engine, name))
            if engine != OURS:
                both = [one for one in requests if _time(one.get(engine), name) is not None]
                shared = f"{OURS} where {engine} has one"
                found[", ".join((head, shared, *rest))] = Spread.of(_times(both, OURS, name))
    for title, name in (("mask in the document", "mask"), ("token in the document", "token")):
        for engine in engines(requests):
            taken = (one[engine] for one in requests if engine in one)
            values = (value for one in taken if one.document is not None for value in getattr(one, name))
            found[f"{title}, {engine}"] = Spread.of(values)
    return found


def standings(requests: Requests) -> dict[str, dict[str, Any]]:
    """For each engine, count schemas, refused ones and given-up ones, and the shares of schemas on which ours
    is faster."""
    found: dict[str, dict[str, Any]] = {}
    for engine in engines(requests):
        own = [one[engine] for one in requests if engine in one]
        found[engine] = {
            "schemas": len(own),
            "refused": sum(bool(one.refusal) for one in own),
            "given_up": sum(one.over is not None for one in own),
            "documents": sum(one.document is not None for one in own),
        }
        if engine != OURS:
            found[engine]["ours_faster"] = {
                name: _share(requests, engine, name)
                for name in ("first_mask", "first_mask_cpu", "document", "document_cpu")
            }
    return found


def print_standings(console: Console, standing: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line for each engine."""
    for engine, one in standing.items():
        line = f"{engine}: refuses {one['refused']:,} of {one['schemas']:,} schemas"
        if one["given_up"]:
            line += f", {one['given_up']:,} given up and counted with the seconds of --max-plain-seconds"
        shares = {name: share for name, share in one.get("ours_faster", {}).items() if share is not None}
        if shares:
            told = ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for name, share in shares.items())
            line += f"; ours is faster on: {told}"
        say(console, line)


def _time(request: Request | None, name: str) -> float | None:
    if request is None:
        return None
    return request.over if request.over is not None else getattr(request, name)


def _times(requests: Requests, engine: str, name: str) -> list[float]:
    found = (_time(one.get(engine), name) for one in requests)
    return [seconds for seconds in found if seconds is not None]


def _share(requests: Requests, engine: str, name: str) -> float | None:
    """Return the share of schemas on which ours is faster, of those with both times; None if there are
    none."""
    pairs = [(_time(one.get(OURS), name), _time(one.get(engine), name)) for one in requests]
    faster = [ours < theirs for ours, theirs in pairs if ours is not None and theirs is not None]
    return sum(faster) / len(faster) if faster else None
