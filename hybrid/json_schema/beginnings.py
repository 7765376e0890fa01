"""Beginnings of items that can always be completed to a new value.

What: `beginnings_of` finds, for the items of an array, the unfinished strings and numbers that can be
completed to more values than an array can contain. For others, `Beginnings.n_values` counts the values. After
either, no search for a new value is needed.
When: for arrays under `uniqueItems`.
Limits: `has` judges strings by their length alone. Strings are counted, and numbers judged and counted, only
if all items have the same ones; arrays, objects and constants never. Other beginnings are searched
(`hybrid.remembering.novelty`).
"""

from __future__ import annotations

import json
from typing import NamedTuple

from hybrid.json_schema.automata import Nonterminal
from hybrid.json_schema.cardinality import canonical_numbers
from hybrid.json_schema.completions import n_completions
from hybrid.json_schema.languages.automaton import Automaton, ending_states, intersection, is_endless
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.strings import ANY_CHARACTER

ENDLESS = 1 << 40
"""Stands for the length limit of strings without one."""

_BOUND = 20_000
"""At most this many states of the numbers of an item are examined."""

NUMBER = frozenset("-0123456789")


class Beginnings(NamedTuple):
    """Beginnings of items that can be completed to more values than came before.

    Attributes:
        length: unfinished strings shorter than this have enough completions.
        strings: the strings, as disjoint pieces; None: unknown.
        numbers: the language of numbers, with one spelling for each; None: unknown.
        ending: its states from which only finitely many numbers can be reached.
        has_zeros: whether numbers may be written with zeros at the end of a fraction.
        behind_zeros: its states from which infinitely many numbers can be reached, even after any number of
            zeros.
    """

    length: int
    strings: tuple[Piece, ...] | None
    numbers: Automaton | None = None
    ending: frozenset[int] = frozenset()
    has_zeros: bool = True
    behind_zeros: frozenset[int] = frozenset()

    def has(self, text: str) -> bool:
        """Whether a beginning is one of these.

        Args:
            text: the beginning, without white space; a string has its opening quotation mark and is
                unfinished.
        """
        if text[0] == '"':
            return len(text) <= self.length
        # Zero has infinitely many spellings: a text that continues `0e` is zero again.
        return bool(text.strip("-0.")) and self._state(text) >= 0

    def n_values(self, text: str) -> int | None:
        """Return the number of values that a beginning can become, at most `MANY`; None: unknown.

        Args:
            text: as of `has`, with nothing left out at its end.
        """
        if text[0] == '"':
            return None if self.strings is None else n_completions(self.strings, json.loads(f'{text}"'))
        # if a number has several spellings, 1.0 may become the same value as 1, and 1e0, too
        if self.numbers is None or text[0] not in NUMBER or (self.has_zeros and not NUMBER.issuperset(text)):
            return None
        return n_completions((Piece(self.numbers),), text)

    def _state(self, text: str) -> int:
        """The state of `numbers` after a text; -1 if only finitely many numbers begin with it."""
        state = 0 if self.numbers is not None and text[0] in NUMBER else -1
        for letter in text:
            if state < 0:
                return -1
            state = self.numbers.step(state, ord(letter))  # type: ignore[union-attr]
        return -1 if state in self.ending else state

    def ends_at(self, text: str) -> bool:
        """Whether an unfinished item that begins with a finished one may have to become equal to it: among
        integers, infinitely many texts begin with `10`, but `10.` must become `10.0`.

        Args:
            text: the finished item, without white space.
        """
        if not self.has(text.removesuffix('"')):
            return True
        if not self.has_zeros or text[0] == '"':
            return False
        return self.numbers.step(self._state(text), ord("0" if "." in text else ".")) not in self.behind_zeros  # type: ignore[union-attr]


def beginnings_of(nonterminals: Nonterminals, values: list[Nonterminal]) -> Beginnings | None:
    """Return the beginnings for items that may each be in one of some nonterminals; None: all beginnings
    count."""
    with_strings = [one for one in values if one.strings.op != "false"]
    length = min((_length(nonterminals, one) for one in with_strings), default=0)
    if len(with_strings) == len(values) and length == ENDLESS and not any(map(_has_others, values)):
        return None
    strings = _only_strings(nonterminals, with_strings)
    formulas = {one.numbers for one in values if one.numbers.op != "false"}
    if len(formulas) != 1:
        return Beginnings(length, strings)
    try:
        texts = nonterminals.numbers.texts(next(iter(formulas)))
        numbers = intersection([texts, canonical_numbers()], _BOUND)
    except TooLarge:
        return Beginnings(length, strings)
    ending = frozenset(ending_states(numbers))
    return Beginnings(length, strings, numbers, ending, numbers != texts, _behind_zeros(numbers, ending))


def _only_strings(nonterminals: Nonterminals, values: list[Nonterminal]) -> tuple[Piece, ...] | None:
    """Return the strings of some nonterminals as disjoint pieces, if all have the same and they can be
    counted; else None."""
    if len({one.strings for one in values}) != 1:
        return None
    pieces = nonterminals.strings.pieces(values[0].strings)
    return None if any(piece.is_counted for piece in pieces) else pieces


def _behind_zeros(numbers: Automaton, ending: frozenset[int]) -> frozenset[int]:
    """See `Beginnings.behind_zeros`."""
    found = set(range(numbers.n_states)) - ending
    while removed := {state for state in found if numbers.step(state, ord("0")) not in found}:
        found -= removed
    return frozenset(found)


def _has_others(value: Nonterminal) -> bool:
    is_nested = value.array is not None or value.object is not None
    return is_nested or value.numbers.op != "false" or value.null or bool(value.booleans)


def _length(nonterminals: Nonterminals, value: Nonterminal) -> int:
    if value.strings.op == "true":
        return ENDLESS
    return min(map(_length_of, nonterminals.strings.pieces(value.strings)), default=0)


def _length_of(piece: Piece) -> int:
    if piece.is_counted:
        return 0
    if piece.characters is None:
        return ENDLESS if is_endless(piece.prefix) else 0
    if piece.most is None:
        return ENDLESS
    return piece.most if piece.characters is ANY_CHARACTER else 0  # any of a million characters may follow
