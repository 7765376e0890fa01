"""The inputs of a report: the files that a user passes, and how much of them is used.

What: `Inputs` has vocabularies, folders and files by name. `Sizes` says how much is measured; `QUICK` and
`FULL` are the two choices.
When: in ``python -m bench report``.
Limits: `QUICK` is meant to take 35 minutes on two slow cores, `FULL` takes hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from bench.cases import CHECKOUT

SAMPLES = CHECKOUT / "bench" / "samples"

DOCUMENTS: Mapping[str, Path] = {
    "c": SAMPLES / "c_like", "arithmetic": SAMPLES / "arithmetic", "cpp": SAMPLES / "cpp",
    "bython": SAMPLES / "bython",
}  # fmt: skip
"""Documents that come with the project."""


@dataclass(frozen=True)
class Inputs:
    """What a user passes; `documents` and `lark` are files and folders by name.

    Attributes:
        elsewhere: a folder with another XGrammar, for new schemas; see `bench.peers.elsewhere`.
        test_suite: a checkout of the JSON-Schema-Test-Suite.
    """

    vocabularies: Sequence[str]
    schemas: Sequence[Path] = ()
    documents: Mapping[str, Path] = field(default_factory=dict)
    lark: Mapping[str, Path] = field(default_factory=dict)
    grammars: Sequence[Path] = ()
    seed: int = 0
    elsewhere: Path | None = None
    test_suite: Path | None = None

    def documents_of(self, name: str) -> Path | None:
        return self.documents.get(name, DOCUMENTS.get(name))


class Sizes(SimpleNamespace):
    """How much is measured.

    Attributes:
        more_schemas: number of schemas for vocabularies after the first.
        option_schemas: number of schemas with other options than the defaults; 0 leaves these out.
        cold_schemas: number of schemas with cold caches.
        tools: numbers of tools for the tags of models.
        fuzz_minutes: minutes of random grammars.
        is_full: whether long jobs are run, too, and every vocabulary in every question.
    """


QUICK = Sizes(
    equality=12, schemas=150, more_schemas=0, option_schemas=0, cold_schemas=3, burst=64, bursts=1,
    strategies=6, strategy_documents=100, class_schemas=30, documents=6, document_tokens=100, plain_masks=40,
    rounds=2, builds=1, starts=3, growth=2, plain_seconds=4.0, peer_seconds=5.0, tools=(1, 8), tag_tokens=30,
    many_tools=(128,), longest=10_000, alone_seconds=30.0,
    fuzz_minutes=1.0, drafted=0, is_full=False,
)  # fmt: skip

FULL = Sizes(
    equality=100, schemas=600, more_schemas=60, option_schemas=30, cold_schemas=12, burst=64, bursts=2,
    strategies=30, strategy_documents=1000, class_schemas=200, documents=30, document_tokens=2000,
    plain_masks=300, rounds=4, builds=3, starts=7, growth=5, plain_seconds=10.0, peer_seconds=120.0,
    tools=(1, 8, 128), tag_tokens=80, many_tools=(128, 400), longest=100_000, alone_seconds=240.0,
    fuzz_minutes=10.0, drafted=60, is_full=True,
)  # fmt: skip


def limited(sizes: Sizes, limit: int | None) -> Sizes:
    """Return sizes with at most `limit` schemas, documents, rows or tokens in each job."""
    if limit is None:
        return sizes
    names = (
        "equality", "schemas", "more_schemas", "option_schemas", "cold_schemas", "strategies",
        "class_schemas", "documents", "starts", "growth", "tag_tokens", "drafted",
    )  # fmt: skip
    smaller = {name: min(limit, getattr(sizes, name)) for name in names}
    smaller |= {"burst": max(2, min(limit, sizes.burst)), "bursts": 1, "fuzz_minutes": min(limit, 6) / 60}
    return Sizes(**{**vars(sizes), **smaller})
