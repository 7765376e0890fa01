"""What a decision costs before any row is written: a classifier's store, called once for each.

What: `decide` times `class_mask` for configurations and `advance` for steps that a classifier meets for
the first time; `SharedTokens` cuts texts into tokens that two vocabularies have in common, so that both
classifiers meet the same configurations.
When: in `bench.grammar`, with ``--other-vocabulary``, to see that decisions do not depend on the number of
ids.
Limits: what a call from Python takes (`known`: the same call for what is known) is not subtracted. Calls
during which a table grew are left out and counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from bench.serving import switches
from hybrid.testing.segmentation import tokenize_greedy


def _times() -> array[float]:
    return array("d")


@dataclass
class Decisions:
    """Seconds of each call, by what was asked for; how many calls had to make room; how many documents
    were left out because the core was taken away meanwhile."""

    mask: array[float] = field(default_factory=_times)
    step: array[float] = field(default_factory=_times)
    known: array[float] = field(default_factory=_times)
    grown: int = 0
    disturbed: int = 0


class SharedTokens:
    """The texts that are tokens of several vocabularies."""

    def __init__(self, vocabularies: Sequence[Any]) -> None:
        by_text = [_ids_by_text(vocabulary) for vocabulary in vocabularies]
        shared = sorted(set(by_text[0]).intersection(*by_text[1:]))
        self._tokens = _Tokens(tuple(shared))
        self._ids = [[ids[text] for text in shared] for ids in by_text]

    def cuts(self, text: bytes) -> list[list[int]]:
        """The ids of one and the same cut of a text, for each vocabulary."""
        places = tokenize_greedy(self._tokens, text)
        return [[ids[place] for place in places] for ids in self._ids]


class _Tokens:
    """A vocabulary as the tokeniser sees it."""

    def __init__(self, tokens: tuple[bytes, ...]) -> None:
        self.tokens = tokens
        self.stop_token_ids: tuple[int, ...] = ()


def _ids_by_text(vocabulary: Any) -> dict[bytes, int]:
    stops = set(vocabulary.stop_token_ids)
    return {text: i for i, text in enumerate(vocabulary.tokens) if text and i not in stops}


def decide(compiled: Any, warm: Sequence[Sequence[int]], measured: Sequence[Sequence[int]]) -> Decisions:
    """Times of decisions that are new in some documents, after others.

    Args:
        compiled: a grammar with a classifier that has met nothing.
        warm: documents that come first.
        measured: documents whose decisions are timed.
    """
    classifier = compiled.classifier
    session = classifier.session
    store = session.store
    found = Decisions()
    masks: set[int] = set()
    steps: set[tuple[int, int]] = set()
    for number, ids in enumerate([*warm, *measured]):
        timed = number >= len(warm)
        document = Decisions()
        before = switches()
        config = session.start
        for token in ids:
            for ask, arguments, known, times in (
                (store.class_mask, (config,), config in masks, document.mask),
                (store.advance, (config, token), (config, token) in steps, document.step),
            ):
                size = store.nbytes
                began = perf_counter()
                answer = ask(*arguments)
                ended = perf_counter()
                if store.nbytes != size:
                    found.grown += timed
                elif timed:
                    (document.known if known else times).append(ended - began)
            masks.add(config)
            steps.add((config, token))
            config = int(answer)
            if not config:
                break
        if switches() != before:
            found.disturbed += timed
            continue
        found.mask += document.mask
        found.step += document.step
        found.known += document.known
    return found
