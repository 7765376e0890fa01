"""A brute-force oracle: does Lark accept a text, and which tokens keep it viable?

What: an `Oracle` answers whether a text is complete, whether it is a viable prefix, and after which tokens it
still is one.
When: in `tests.robustness.fuzz`, and in tests of the code that answers the same without brute force.
Limits: continuations are tried up to a length, over an alphabet; a cut character is also completed to one
character outside of it. True is certain. False means that no continuation was found; it is exact if the lexer
decides within that length. The search that shares work does not support patterns that look behind their own
beginning (`viable_by_definition` does).

A text p, of bytes, is a *viable prefix* if there is a continuation c, possibly empty, such that the basic
lexer cuts p + c at least up to the lexeme that covers the last byte of p, and the parser shifts the terminals
of all lexemes up to that one. Ignored lexemes are invisible to the parser. What follows need not be lexed or
parsed, so a viable prefix need not be the beginning of a sentence.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from lark import Lark
from lark.exceptions import LarkError
from lark.utils import TextSlice

from bench.peers.lark import Lexeme, Machine, Stack


class Reached(NamedTuple):
    """The state after a text: everything that later text depends on.

    Attributes:
        stack: the parser's stack after the lexemes that no continuation can change.
        open: the characters after these lexemes.
        tail: the bytes of an incomplete character at the end.
    """

    stack: Stack
    open: str
    tail: bytes


class Oracle:
    """Exact answers about one grammar, up to a maximal length of continuations.

    Args:
        lark: a grammar with parser "lalr" and lexer "basic".
        alphabet: the characters of continuations.
        length: the maximal number of characters of a continuation, not counting the one that completes a cut
            character.
    """

    def __init__(self, lark: Lark, alphabet: str, length: int) -> None:
        self.machine = Machine(lark)
        self.alphabet = alphabet
        self.continuations = [
            "".join(word) for size in range(length + 1) for word in product(alphabet, repeat=size)
        ]
        # the search that shares work answers each question once
        self._reached = cache(self._reach)
        self._row = cache(self._allowed)
        self._after = cache(self._step)
        self._certain = cache(self._certain_lexeme)
        self._lexeme = cache(self._first_lexeme)
        self._is_viable = cache(self._search)

    # ---- answers

    def complete(self, text: str | bytes) -> bool:
        """Whether Lark parses the text."""
        try:
            self.machine.lark.parse(text if isinstance(text, str) else text.decode("utf-8"))
        except (LarkError, UnicodeDecodeError):
            return False
        return True

    def viable(self, text: str | bytes) -> bool:
        """Whether a continuation was found that makes the text a viable prefix.

        Every beginning of a viable prefix is one too, so if a beginning has no continuation, none is searched
        for here.
        """
        return self._reached(_encoded(text)) is not None

    def allowed_tokens(self, text: str | bytes, tokens: Sequence[bytes]) -> tuple[bool, ...]:
        """For each token, whether the text followed by it is a viable prefix; all False if the text is not
        one."""
        return self._row(self._reached(_encoded(text)), tuple(tokens))

    def texts(self, most: int) -> Iterator[str]:
        """Return all viable prefixes of at most this many characters of the alphabet, shortest first."""
        found = [""]
        for _ in range(most + 1):
            yield from found
            found = [text + more for text in found for more in self.alphabet if self.viable(text + more)]

    def viable_by_definition(self, text: str | bytes) -> bool:
        """`viable`, implemented literally by the definition, without shared work; slow."""
        data = _encoded(text)
        try:
            start, tail = _characters(data)
        except UnicodeDecodeError:
            return False
        starts = [start + more for more in self._completing(tail)] if tail else [start]
        pairs = product(starts, self.continuations)
        return any(self.machine.takes(begun + more, len(begun)) for begun, more in pairs)

    # ---- the search that shares work

    def _reach(self, data: bytes) -> Reached | None:
        """Return the state after a text; None if the text is not a viable prefix."""
        if not data:
            return Reached(self.machine.start, "", b"")
        before = self._reached(data[:-1])
        return None if before is None else self._extend(before, data[-1:])

    def _allowed(self, reached: Reached | None, tokens: tuple[bytes, ...]) -> tuple[bool, ...]:
        return tuple(reached is not None and self._extend(reached, token) is not None for token in tokens)

    def _extend(self, reached: Reached, more: bytes) -> Reached | None:
        try:
            characters, tail = _characters(reached.tail + more)
        except UnicodeDecodeError:
            return None
        whole: Reached | None = reached._replace(tail=b"")
        for character in characters:
            if whole is None:
                return None
            whole = self._after(whole, character)
        if whole is None or not tail:
            return whole
        completed = (self._after(whole, character) for character in self._completing(tail))
        return whole._replace(tail=tail) if any(completed) else None

    def _completing(self, tail: bytes) -> list[str]:
        """Return the characters of the alphabet that begin with these bytes, and one other that stands for
        all the rest."""
        found = [item for item in self.alphabet if item.encode().startswith(tail)]
        for second, more in product((b"", b"\x80", b"\x90", b"\xa0", b"\xbf"), (b"", b"\x80", b"\x80\x80")):
            try:
                other = (tail + second + more).decode()
            except UnicodeDecodeError:
                continue
            if len(other) == 1 and other not in self.alphabet:
                return [*found, other]
        return found

    def _step(self, reached: Reached, character: str) -> Reached | None:
        """Return the state after one more character; None if the text is not a viable prefix any more."""
        stack, text = reached.stack, reached.open + character
        while text and (lexeme := self._certain(text)) is not None:
            shifted = self.machine.shift(stack, lexeme.terminal)
            if shifted is None:
                return None
            stack, text = shifted, text[lexeme.length :]
        after = Reached(stack, text, b"")
        return after if self._is_viable(after) else None

    def _certain_lexeme(self, text: str) -> Lexeme | None:
        """The first lexeme, if it lies within the text and is the same for all continuations."""
        first = self._lexeme(text)
        is_certain = all(self._lexeme(text + more) == first for more in self.continuations)
        return first if is_certain else None

    def _search(self, reached: Reached) -> bool:
        """Whether some continuation leads to lexemes that can be shifted."""
        text = reached.open
        return any(self._is_shifted(reached.stack, text + more, len(text)) for more in self.continuations)

    def _is_shifted(self, stack: Stack, text: str, covered: int) -> bool:
        """Whether the lexemes that cover the first `covered` characters can be shifted."""
        while covered > 0:
            lexeme = self._lexeme(text)
            shifted = None if lexeme is None else self.machine.shift(stack, lexeme.terminal)
            if lexeme is None or shifted is None:
                return False
            stack, text, covered = shifted, text[lexeme.length :], covered - lexeme.length
        return True

    def _first_lexeme(self, text: str) -> Lexeme | None:
        """The first lexeme of a text."""
        return self.machine.lexeme(TextSlice.cast_from(text))


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _characters(data: bytes) -> tuple[str, bytes]:
    """Return the complete characters, and the bytes of a character that is cut at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    return decoder.decode(data), decoder.getstate()[0]
