"""The `Vocabulary` of an `xgrammar.TokenizerInfo`: made once for each, as it takes 0.8 s for 128,000 ids.

What: `vocabulary_of`, and `ByIdentity`, which keeps what was made of an object for as long as that lives.
When: by `GrammarCompiler` and `wrap`.
Limits: XGrammar does not tell whether two `TokenizerInfo` objects describe the same tokenizer, so each one
has a vocabulary of its own; keep the object, and pass it again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

import xgrammar

from hybrid import Vocabulary

Made = TypeVar("Made")


class ByIdentity(Generic[Made]):
    """What was made of objects that can be referred to weakly, but not hashed, as long as they live.

    Args:
        make: makes it of an object; may be called twice where two threads ask at once.
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self._make = make
        self._made: dict[int, tuple[weakref.ref[object], Made]] = {}

    def of(self, given: object) -> Made:
        """What was made of this very object."""
        number = id(given)
        known = self._made.get(number)
        if known is None or known[0]() is not given:  # the number of an object that is gone may come again
            known = weakref.ref(given, lambda dead: self._forget(number, dead)), self._make(given)
            self._made[number] = known
        return known[1]

    def _forget(self, number: int, dead: weakref.ref[object]) -> None:
        known = self._made.get(number)
        if known is not None and known[0] is dead:
            del self._made[number]


@cache
def without_ids() -> Vocabulary:
    """What stands for a tokenizer without ids, which reads texts only: one id that is never allowed."""
    return Vocabulary.from_bytes([b""])


def _made_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    return Vocabulary.from_tokenizer_info(info) if info.vocab_size else without_ids()


_vocabularies = ByIdentity(_made_of)


def vocabulary_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    """The vocabulary that a tokenizer's description stands for."""
    return _vocabularies.of(info)
