"""Whether masks of a Lark grammar are right, file by file: each file is accepted, and what is refused is
wrong.

What: `follow` runs a file token by token and says where it fails. `judge_file` asks Lark itself
(`bench.lark_judge`) about tokens that masks refuse and allow along a file.
When: in `bench.lark`, before any time is reported.
Limits: if Lark accepts a refused token, its bit is certainly wrong. If no continuation was found, the refusal
is right as far as was tried. If a continuation was found for an allowed token, it is right; else it is
undecided.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import xgrammar

from bench.lark_judge import Judge
from hybrid.testing.mask_comparison import flags_of

KEPT_BYTES = 80
"""How many bytes are kept of the text before a token."""

THOROUGH = 100
"""One of this many refused tokens is judged with many more continuations (`Judge.taken`)."""


@dataclass(frozen=True)
class Followed:
    """The result for one file.

    Attributes:
        name: name of the file.
        cut: how it was cut, one of `bench.documents.CUTS`.
        tokens: number of accepted tokens.
        failure: the first error, and its place; empty if there was none.
    """

    name: str
    cut: str
    tokens: int
    failure: str


@dataclass
class Judged:
    """The result of asking Lark about tokens.

    Attributes:
        steps: number of masks from which tokens were drawn.
        refused: number of tokens that masks refuse.
        unsound: those of them that Lark accepts: the end of the text before, the token, the continuation.
        unclosed: the same, not included in `unsound`, if the text has an opening (such as that of a comment)
            that is never closed: `equivalence.lark.lexer.lexeme_transducer` excludes such texts.
        not_text: how many of the refused tokens make no UTF-8 text.
        allowed: number of tokens that masks allow.
        undecided: those of them for which no continuation was found.
    """

    steps: int = 0
    refused: int = 0
    not_text: int = 0
    unsound: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    unclosed: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    allowed: int = 0
    undecided: list[tuple[bytes, bytes]] = field(default_factory=list)

    def add(self, other: Judged) -> None:
        """Add the results of another."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def follow(compiled: Any, name: str, ids: Sequence[int], cut: str) -> Followed:
    """Read a file token by token, check that each mask allows the next token, and that the stop tokens are
    allowed at the end."""
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
    """Ask Lark about tokens along a file.

    Args:
        compiled: the grammar.
        judge: the judge of the same grammar.
        text: the text of the file.
        ids: its tokens.
        near: ids from which half of the refused tokens are drawn, for example those of documents of the
            language.
        rng: draws steps and tokens.
        steps: how many steps are drawn; 0 takes all.
        refused, allowed: how many tokens of each kind are drawn in each step.
    """
    from hybrid import GrammarMatcher

    vocabulary, tokens = compiled.vocabulary, compiled.vocabulary.tokens
    drawn = set(range(len(ids)) if not steps else rng.sample(range(len(ids)), min(steps, len(ids))))
    cuts = np.concatenate([[0], np.cumsum([len(tokens[token]) for token in ids])]).tolist()
    data = text.encode()
    ordered = sorted(drawn)
    places = dict(zip(ordered, judge.places(text, [cuts[number] for number in ordered]), strict=True))
    textual = np.array([bool(token) for token in tokens])
    textual[list(vocabulary.stop_token_ids)] = False
    neighbours = np.zeros(vocabulary.size, np.bool_)
    neighbours[list(near)] = True
    begins = np.array([may_be_text(token) for token in tokens])
    found = Judged(steps=len(drawn))
    matcher = GrammarMatcher(compiled)
    for number, token_id in enumerate(ids):
        if number in drawn:
            bits = flags_of(matcher)
            out = textual & ~bits
            place = places[number]
            # every lexer refuses tokens that make no text, so only a few of these are drawn
            wrong = out if place.tail else out & begins
            chosen = _draw(rng, np.flatnonzero(wrong & neighbours), refused // 2)
            chosen += _draw(rng, np.flatnonzero(wrong), refused - len(chosen) - refused // 20)
            chosen += _draw(rng, np.flatnonzero(out), refused // 20)
            for other in chosen:
                more = judge.taken(place, tokens[other], thorough=found.refused % THOROUGH == 0)
                found.refused += 1
                found.not_text += not may_be_text(place.tail + tokens[other])
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


def may_be_text(data: bytes) -> bool:
    """Whether some continuation, possibly empty, makes the bytes well-formed UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
