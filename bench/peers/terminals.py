"""A masker that closes one terminal a token, as constrained decoding over a lexer is first written.

What: `masked` says at which tokens of a document such a masker would have stood in the way: those whose bytes
are of more than one terminal, white space among them.
When: in `bench.invasive`.
Limits: no masker that anybody uses: it is what "greedy" constraining means where the cost of it is discussed
(Beurer-Kellner et al., "Guiding LLMs The Right Way", ICML 2024). It is asked about one way to cut a document.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Lark


def masked(lark: Lark, text: str, tokens: Sequence[bytes]) -> list[bool]:
    """For each token of a text, whether it ends one terminal and begins another.

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
