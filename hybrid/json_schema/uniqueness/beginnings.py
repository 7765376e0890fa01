"""Beginnings of items that can always be completed to a new value.

What: `beginnings_of` finds, for the items of an array, the unfinished strings and numbers that can be
completed to more values than an array can contain. For others, `Beginnings.has_new` counts the values. After
either, no search for a new value is needed.
When: for arrays under `uniqueItems`.
Limits: `has` judges strings by their length alone, and numbers only if all items have the same ones. If
values cannot be counted (`prefix_counts.py`), or if it depends on the state of the array whether there is a
new one, they are searched (`hybrid.uniqueness.new_values`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hybrid.json_schema.automata import Nonterminal
from hybrid.json_schema.languages.automaton import Automaton, ending_states, is_endless
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.productive import parts_of
from hybrid.json_schema.strings import ANY_CHARACTER
from hybrid.json_schema.uniqueness.cardinality import Counts, shortest_texts
from hybrid.json_schema.uniqueness.prefix_counts import (
    MOST_STATES,
    NUMBER,
    Unknown,
    Values,
    add_values,
    n_texts_with_prefix,
)
from hybrid.json_schema.uniqueness.repeated_keys import always_has_more, has_undeclared

ENDLESS = 1 << 40
"""Stands for the length limit of strings without one."""


class Beginnings(NamedTuple):
    """Beginnings of items that can be completed to more values than came before.

    Attributes:
        length: unfinished strings shorter than this have enough completions.
        values: the values of items in different states of the array.
        numbers: the language of numbers, with one spelling for each; None: unknown.
        ending: its states from which only finitely many numbers can be reached.
        has_zeros: whether numbers may be written with zeros at the end of a fraction.
        behind_zeros: its states from which infinitely many numbers can be reached, even after any number of
            zeros.
        has_free_order: whether items may go on after an object with undeclared keys, which may come in any
            order.
    """

    length: int
    values: tuple[tuple[Values, ...], ...]
    numbers: Automaton | None = None
    ending: frozenset[int] = frozenset()
    has_zeros: bool = True
    behind_zeros: frozenset[int] = frozenset()
    has_free_order: bool = False

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

    def has_new(self, text: str, texts: Iterable[str]) -> bool | None:
        """Whether a beginning can become another value than those that came before; None: unknown.

        Args:
            text: as of `has`, with nothing left out at its end.
            texts: the texts of the values before, except of those whose beginnings are all endless.
        """
        found = set()
        try:
            for values in self.values:
                n = sum(one.n_with_prefix(text) for one in values)
                if n:  # otherwise the array is in another state
                    is_new = n > n_texts_with_prefix(text, values, texts)
                    if not is_new and len(self.values) > 1:  # some texts may be those of other items
                        these = [one for one in texts if any(some.holds(one) for some in values)]
                        is_new = n > n_texts_with_prefix(text, values, these)
                    found.add(is_new)
        except Unknown:
            return None
        return found.pop() if len(found) == 1 else None

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


def beginnings_of(
    counts: Counts, states: set[frozenset[Nonterminal]], counted: dict[Nonterminal, Values]
) -> Beginnings | None:
    """Return the beginnings for items; None: all beginnings count.

    Args:
        counts: the counts of the schema.
        states: for each state of an array, the nonterminals of the next item.
        counted: the values that other items needed; those of these items are added.
    """
    nonterminals = counts.nonterminals
    values = sorted(frozenset[Nonterminal]().union(*states), key=lambda one: one.number)
    with_strings = [one for one in values if one.strings.op != "false"]
    lengths = [min(map(_length_of, counts.pieces(one)), default=0) for one in with_strings]
    length = min(lengths, default=0)
    if len(with_strings) == len(values) and length == ENDLESS and not any(map(_has_others, values)):
        return None
    has_free_order = _has_free_order(values)
    add_values(counted, counts, values, has_free_order)
    ways = tuple(tuple(counted[one] for one in state) for state in states)
    found = Beginnings(length, ways, has_free_order=has_free_order)
    formulas = {one.numbers for one in values if one.numbers.op != "false"}
    if len(formulas) != 1:
        return found
    try:
        texts = nonterminals.numbers.texts(next(iter(formulas)))
        numbers = shortest_texts(texts, MOST_STATES)
    except TooLarge:
        return found
    ending = frozenset(ending_states(numbers))
    return found._replace(
        numbers=numbers, ending=ending, has_zeros=numbers != texts,
        behind_zeros=_behind_zeros(numbers, ending),
    )  # fmt: skip


def _behind_zeros(numbers: Automaton, ending: frozenset[int]) -> frozenset[int]:
    """See `Beginnings.behind_zeros`."""
    found = set(range(numbers.n_states)) - ending
    while removed := {state for state in found if numbers.step(state, ord("0")) not in found}:
        found -= removed
    return frozenset(found)


def _has_free_order(items: list[Nonterminal]) -> bool:
    """See `Beginnings.has_free_order`."""
    automata = [automaton for one in items for automaton in one.automata if not always_has_more(automaton)]
    return any(one.object is not None and has_undeclared(one.object) for one in parts_of(automata))


def _has_others(value: Nonterminal) -> bool:
    is_nested = value.array is not None or value.object is not None
    return is_nested or value.numbers.op != "false" or value.null or bool(value.booleans)


def _length_of(piece: Piece) -> int:
    """See `Beginnings.length`."""
    if piece.is_counted:
        return 0
    if piece.characters is None:
        return ENDLESS if is_endless(piece.prefix) else 0
    if piece.most is None:
        return ENDLESS
    return piece.most if piece.characters is ANY_CHARACTER else 0  # any of a million characters may follow
