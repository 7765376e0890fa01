"""Lark as the judge of tokens in real files: is there a continuation with which it accepts a text and a
token?

What: `Judge.taken` searches for a continuation with which Lark's lexer cuts, and its parser table shifts, all
lexemes up to the one that contains the token's last byte. `Judge.confirmed` repeats a find with Lark as users
run it.
When: in `bench.lark_checks`, on tokens that a mask allows or refuses.
Limits: "taken" is certain; "not taken" means that none of the tested continuations worked. Lexing begins some
lexemes of the document before the token. If a token would make Lark cut the text before these in another way,
nothing is found. (Lexing each text from its beginning would take 100 times as long.)
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from lark import Lark
from lark.utils import TextSlice

from bench.peers.lark import Machine, Stack

ENDS = ("", " ", "\n", "a", "0", '"', "'", "`", "*/", "a ", "=", ")", ";", "]", "}", ",", "000", "e1")
"""Continuations that may end the lexeme in which a token ends, make it longer, or make it another one."""

BEFORE = 3
"""Lexemes of the document that are lexed again before the one in which a token begins."""

CONTEXT = 64
"""Characters kept before the first lexeme, for patterns that look behind them."""

FILLERS = ("", "a", "0", " ", ";", "\n", "(", "=")
"""Texts with which an unclosed lexeme, such as a comment, may continue."""

WORD = re.compile(r"(?<!\\)[A-Za-z]{2,}")
"""Finds possible words of the language in patterns."""

FOLDED = str.maketrans("\u0130\u0131\u017f", "iis")
"""Letters beyond ASCII that patterns treat as ASCII letters if they ignore case."""

INNER = [bytes([value]) for value in (0x80, 0x90, 0x9F, 0xA0, 0xBF)]
LAST = [bytes([value]) for value in (0x80, 0xA0, 0xAA, 0xB5, 0xBF)]
EVERY = [bytes([value]) for value in range(0x80, 0xC0)]
"""Bytes that may complete a character: some inner bytes, some last bytes, and all of them."""


class Place(NamedTuple):
    """A text up to some byte, as far as the judge needs it.

    Attributes:
        text: the last characters before the place.
        begin: the index in them at which lexing begins.
        stack: the parser's stack there.
        tail: the bytes of an incomplete character.
    """

    text: str
    begin: int
    stack: Stack
    tail: bytes


class Judge:
    """Answers for one grammar.

    Args:
        lark: the grammar, built with parser "lalr" and lexer "basic".
    """

    def __init__(self, lark: Lark) -> None:
        self.machine = Machine(lark)
        patterns = [item.pattern for item in lark.terminals]
        literals = {pattern.value for pattern in patterns if pattern.type == "str"}
        words = (WORD.findall(pattern.value) for pattern in patterns if pattern.type != "str")
        self.literals = tuple(sorted(literals.union(*words)))
        """Terminals that are written as text, and the words in patterns."""
        beyond = {item for pattern in patterns for item in pattern.value if not item.isascii()}
        self._beyond = sorted(item.encode() for item in beyond)

    def places(self, text: str, cuts: Sequence[int]) -> Iterator[Place]:
        """Yield the places of a text after the given numbers of bytes, which are ascending.

        Raises:
            ValueError: Lark does not parse the text.
        """
        lexemes = list(self._lexemes(text))
        data = text.encode()
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        done = characters = number = 0
        for cut in cuts:
            characters += len(decoder.decode(data[done:cut]))
            done = cut
            while number + 1 < len(lexemes) and lexemes[number + 1][0] < characters:
                number += 1
            begin, stack = lexemes[max(number - BEFORE, 0)] if lexemes else (0, self.machine.start)
            first = max(begin - CONTEXT, 0)
            yield Place(text[first:characters], begin - first, stack, decoder.getstate()[0])

    def _lexemes(self, text: str) -> Iterator[tuple[int, Stack]]:
        """Yield where each lexeme begins, and the parser's stack before it."""
        whole, at, stack = TextSlice(text, 0, len(text)), 0, self.machine.start
        while at < len(text):
            yield at, stack
            found = self.machine.lexeme(whole, at)
            after = None if found is None else self.machine.shift(stack, found.terminal)
            if found is None or after is None:
                raise ValueError(f"Lark does not take the text beyond character {at}: {text[at : at + 20]!r}")
            at, stack = at + found.length, after

    def taken(self, place: Place, token: bytes, *, thorough: bool = False) -> bytes | None:
        """Search for a continuation, in bytes, with which Lark accepts the text at a place and a token.
        Return it, or None.

        Args:
            place: the place of the token.
            token: its bytes.
            thorough: also try pairs of continuations and all literals; if the token ends inside of a
                character, try more characters instead.
        """
        for completed, added in self._completed(place.tail + token, thorough):
            text = place.text + completed
            for more in self._continuations(text, thorough, bool(added)):
                if self._takes(text + more, place, len(text)):
                    return added + more.encode()
        return None

    def confirmed(self, text: bytes, more: bytes) -> bool:
        """Whether Lark, reading from the beginning, accepts the last byte of a text that is followed by
        ``more``."""
        return self.machine.takes((text + more).decode(), len(text.decode(errors="replace")))

    def unclosed(self, place: Place, token: bytes, more: bytes) -> bool:
        """Whether a find depends on an opening that is never closed, such as that of a comment.

        It does if Lark cuts a short lexeme at some place, but would cut a lexeme there that extends beyond
        the token if one of the continuations followed later, whatever text came before it.
        """
        data = place.tail + token
        finds = (text for text, added in self._completed(data, True) if more.startswith(added))
        completed = next(finds, None)
        if completed is None:
            return False
        text, at = place.text + completed, place.begin
        found = TextSlice.cast_from(text + (data + more).decode()[len(completed) :])
        while at < len(text):
            lexeme = self.machine.lexeme(found, at)
            if lexeme is None:
                return False
            at_end = at + lexeme.length
            if at_end < len(text) and any(self._is_open(text, at, end) for end in ENDS):
                return True
            at = at_end
        return False

    def _is_open(self, text: str, at: int, end: str) -> bool:
        for filler in FILLERS:
            lexeme = self.machine.lexeme(TextSlice.cast_from(text + filler + end), at)
            if lexeme is None or at + lexeme.length < len(text + filler):
                return False
        return True

    def _continuations(self, text: str, thorough: bool, cut: bool) -> Iterator[str]:
        yield from ENDS
        rests = sorted(self._rests(text, thorough), key=len)
        yield from rests
        if thorough:
            yield from (rest + more for rest in rests for more in (" ", "a"))
            yield from (f"{rest} {literal}" for rest in rests for literal in self.literals)
        if thorough and not cut:
            yield from (space + literal for space in ("", " ") for literal in self.literals)
            yield from (first + second for first in ENDS for second in ENDS)

    def _rests(self, text: str, every: bool) -> set[str]:
        """Return the rests of literals whose beginning ends the text: for the longest beginnings, or
        for all."""
        rests: set[str] = set()
        for size in range(min(12, len(text)), 0, -1):
            end = text[-size:].translate(FOLDED).lower()
            rests |= {
                item[size:] for item in self.literals if len(item) > size and item[:size].lower() == end
            }
            if rests and not every:
                break
        return rests

    def _takes(self, text: str, place: Place, covered: int) -> bool:
        whole, at, stack = TextSlice(text, 0, len(text)), place.begin, place.stack
        while at < covered:
            found = self.machine.lexeme(whole, at)
            after = None if found is None else self.machine.shift(stack, found.terminal)
            if found is None or after is None:
                return False
            at, stack = at + found.length, after
        return True

    def _completed(self, data: bytes, thorough: bool) -> Iterator[tuple[str, bytes]]:
        """Yield the characters of some bytes, with the last one completed if it is cut; and what was added to
        it."""
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        try:
            characters = decoder.decode(data)
        except UnicodeDecodeError:
            return
        tail = decoder.getstate()[0]
        if not tail:
            yield characters, b""
            return
        missing = (2 if tail[0] < 0xE0 else 3 if tail[0] < 0xF0 else 4) - len(tail)
        inner = EVERY if thorough and missing == 2 else INNER
        rests = map(b"".join, product(*[inner] * (missing - 1), EVERY if thorough else LAST))
        matter = [item[len(tail) :] for item in self._beyond if item.startswith(tail)]
        for rest in dict.fromkeys([*matter, *rests]):
            try:
                yield characters + (tail + rest).decode(), rest
            except UnicodeDecodeError:
                continue
