"""How many strings begin with an unfinished one.

What: `n_completions` counts the texts of some pieces of a language that begin with a text, up to `MANY`.
When: for the values of items under `uniqueItems` (`prefix_counts.py`).
Limits: the pieces of the language are disjoint, and none is counted (`languages/counted.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from hybrid.json_schema.languages.automaton import Automaton
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.minimisation import n_characters_between
from hybrid.json_schema.uniqueness.cardinality import MANY, n_sequences, n_ways


def n_completions(pieces: tuple[Piece, ...], text: str) -> int:
    """Return the number of texts that begin with a text, or `MANY`."""
    return min(sum(n for piece in pieces for n in _of_piece(piece, text)), MANY)


def has_text(piece: Piece, text: str) -> bool:
    """Whether a piece has a text."""
    return any(piece.least <= left and piece.prefix.accepting[state] for state, left in _read(piece, text))


def _of_piece(piece: Piece, text: str) -> Iterator[int]:
    """Yield numbers of texts of a piece that begin with a text, by what they have as the prefix."""
    characters, most = piece.characters, piece.most
    n_characters = 0 if characters is None else characters.n_texts or 0
    for state, left in _read(piece, text):
        if not left:
            tails = 1 if characters is None else n_sequences(n_characters, piece.least, most)
            yield _n_behind(piece.prefix)[state] * tails
        elif piece.prefix.accepting[state]:
            yield n_sequences(n_characters, max(piece.least - left, 0), None if most is None else most - left)


def _read(piece: Piece, text: str) -> Iterator[tuple[int, int]]:
    """Read a text in a piece: yield pairs of a state of the prefix, and the number of characters at the end
    of the text that may follow it."""
    characters, most = piece.characters, piece.most
    n_read = 0  # how many characters at the end of the text may follow a prefix
    if characters is not None:
        n_read = next((i for i, one in enumerate(reversed(text)) if not characters.contains(one)), len(text))
    state = -1 if piece.prefix.is_empty else 0
    for left, letter in zip(range(len(text), 0, -1), text, strict=True):
        if state < 0:
            return
        if left <= n_read and (most is None or left <= most):
            yield state, left
        state = piece.prefix.step(state, ord(letter))
    if state >= 0:
        yield state, 0


@lru_cache(maxsize=256)
def _n_behind(language: Automaton) -> list[int]:
    """Return, for each state, the number of texts that are read from there on, or `MANY`."""
    edges = [
        [(n_characters_between(low, high), target) for low, high, target in row] for row in language.rows
    ]
    return n_ways(list(map(int, language.accepting)), edges)
