"""Masks that only allow tokens within one terminal, as in simple constrained decoding over a lexer.

What: `masked` says which tokens of a document such masks would forbid: those that span more than one
terminal, including white space.
When: in `bench.invasive`.
Limits: nobody uses such masks. They are what "greedy" constraining means where its cost is discussed
(Beurer-Kellner et al., "Guiding LLMs The Right Way", ICML 2024). Only one way to cut a document is tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Lark


def masked(lark: Lark, text: str, tokens: Sequence[bytes]) -> list[bool]:
    """For each token of a text, return whether one terminal ends and another begins inside of it.

    Args:
        lark: a grammar that lexes the text, with the basic lexer.
        text: a document.
        tokens: the bytes of its tokens, which spell it.
    """
    ends = set()  # the places between terminals, in bytes
    places = [0]
    for character in text:
        places.append(places[-1] + len(character.encode()))
    for terminal in lark.lex(text, dont_ignore=True):
        ends |= {places[terminal.start_pos or 0], places[terminal.end_pos or 0]}
    found, at = [], 0
    for token in tokens:
        found.append(any(place in ends for place in range(at + 1, at + len(token))))
        at += len(token)
    return found
