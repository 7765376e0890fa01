"""Whether masks of a Lark grammar are right, file by file: every file passes, and what is refused is wrong.

What: `follow` runs a file token by token and says where it fails; `judge_file` asks Lark itself
(`bench.lark_judge`) about tokens that masks refuse and allow along a file.
When: in `bench.lark`, before any time is reported.
Limits: a refused token that Lark takes is a wrong bit for certain, one for which no continuation was found
is refused rightly as far as was tried. An allowed token is right if one was found, else it is undecided.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import xgrammar

from bench.lark_judge import Judge

KEPT_BYTES = 80
"""Of the text before a token, in what is kept of it."""

THOROUGH = 100
"""One of so many refused tokens is judged with many more continuations (`Judge.taken`)."""


@dataclass(frozen=True)
class Followed:
    """One file, token by token.

    Attributes:
        name: of the file.
        cut: of `bench.documents.CUTS`.
        tokens: accepted.
        failure: what was wrong first, and where; empty if nothing was.
    """

    name: str
    cut: str
    tokens: int
    failure: str


@dataclass
class Judged:
    """Tokens put to the judge.

    Attributes:
        steps: masks that they were drawn from.
        refused: tokens that masks refuse.
        unsound: of these, those that Lark takes: the end of the text before, the token, the continuation.
        unclosed: those, counted apart, that Lark takes where an opening, of a comment say, is never closed:
            `equivalence.lark.lexer.unreading` leaves such texts out.
        not_text: of these, those that make no UTF-8 text.
        allowed: tokens that masks allow.
        undecided: of these, those for which no continuation was found.
    """

    steps: int = 0
    refused: int = 0
    not_text: int = 0
    unsound: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    unclosed: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    allowed: int = 0
    undecided: list[tuple[bytes, bytes]] = field(default_factory=list)

    def add(self, other: Judged) -> None:
        """Count another's tokens, too."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def follow(compiled: Any, name: str, ids: Sequence[int], cut: str) -> Followed:
    """Accept a file's tokens, each allowed by the mask before it, and then the stop token."""
    from hybrid import GrammarMatcher

    vocabulary = compiled.vocabulary
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    words = bitmask.numpy()[0]
    matcher = GrammarMatcher(compiled)
    at = 0
    for number, token in enumerate(ids):
        matcher.fill_next_token_bitmask(bitmask)
        allowed = bool(words[token >> 5] >> (token & 31) & 1)
        accepted = matcher.accept_token(token)
        if not (allowed and accepted):
            what = f"the mask {'allows' if allowed else 'refuses'} it, accept_token gives {accepted}"
            return Followed(
                name, cut, number, f"token {number} at byte {at}, {vocabulary.tokens[token]!r}: {what}"
            )
        at += len(vocabulary.tokens[token])
    matcher.fill_next_token_bitmask(bitmask)
    stops = [stop for stop in vocabulary.stop_token_ids if words[stop >> 5] >> (stop & 31) & 1]
    if not matcher.is_completed() or len(stops) != len(vocabulary.stop_token_ids):
        what = f"is_completed gives {matcher.is_completed()}, stop tokens allowed: {stops}"
        return Followed(name, cut, len(ids), f"at the end, byte {at}: {what}")
    return Followed(name, cut, len(ids), "")


def judge_file(
    compiled: Any,
    judge: Judge,
    text: str,
    ids: Sequence[int],
    near: Sequence[int],
    rng: random.Random,
    steps: int,
    refused: int,
    allowed: int,
) -> Judged:
    """Put tokens along a file to the judge.

    Args:
        compiled: the grammar.
        judge: of the same grammar.
        text: the file's; `ids` are its tokens.
        near: ids that half of the refused tokens are drawn from: those of documents of the language, say.
        rng: draws steps and tokens.
        steps: that are drawn; 0 takes all.
        refused, allowed: tokens of each kind at each step.
    """
    from hybrid import GrammarMatcher

    vocabulary, tokens = compiled.vocabulary, compiled.vocabulary.tokens
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    drawn = set(range(len(ids)) if not steps else rng.sample(range(len(ids)), min(steps, len(ids))))
    cuts = np.concatenate([[0], np.cumsum([len(tokens[token]) for token in ids])]).tolist()
    data = text.encode()
    ordered = sorted(drawn)
    places = dict(zip(ordered, judge.places(text, [cuts[number] for number in ordered]), strict=True))
    textual = np.array([bool(token) for token in tokens])
    textual[list(vocabulary.stop_token_ids)] = False
    neighbours = np.zeros(vocabulary.size, np.bool_)
    neighbours[list(near)] = True
    begins = np.array([_may_be_text(token) for token in tokens])
    found = Judged(steps=len(drawn))
    matcher = GrammarMatcher(compiled)
    for number, token_id in enumerate(ids):
        if number in drawn:
            matcher.fill_next_token_bitmask(bitmask)
            bits = np.unpackbits(bitmask.numpy()[0].view(np.uint8), bitorder="little")[: vocabulary.size] > 0
            out = textual & ~bits
            place = places[number]
            # what makes no text is refused by any lexer: a few of these do
            wrong = out if place.tail else out & begins
            chosen = _draw(rng, np.flatnonzero(wrong & neighbours), refused // 2)
            chosen += _draw(rng, np.flatnonzero(wrong), refused - len(chosen) - refused // 20)
            chosen += _draw(rng, np.flatnonzero(out), refused // 20)
            for other in chosen:
                more = judge.taken(place, tokens[other], thorough=found.refused % THOROUGH == 0)
                found.refused += 1
                found.not_text += not _may_be_text(place.tail + tokens[other])
                before = data[: cuts[number]]
                if more is not None and judge.confirmed(before + tokens[other], more):
                    left_open = judge.unclosed(place, tokens[other], more)
                    cases = found.unclosed if left_open else found.unsound
                    cases.append((before[-KEPT_BYTES:], tokens[other], more))
            for other in _draw(rng, np.flatnonzero(textual & bits), allowed):
                found.allowed += 1
                if all(judge.taken(place, tokens[other], thorough=deep) is None for deep in (False, True)):
                    found.undecided.append((data[: cuts[number]][-KEPT_BYTES:], tokens[other]))
        matcher.accept_token(token_id)
    return found


def _draw(rng: random.Random, choices: Any, count: int) -> list[int]:
    picked = choices[rng.sample(range(len(choices)), min(count, len(choices)))]
    return [int(value) for value in picked]


def _may_be_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
