"""Lark itself as the judge of tokens: whether a continuation makes it take a text and a token.

What: a `Judge` lexes a text with a token and a continuation by Lark's own lexer, and asks Lark's own parser
table to shift the lexemes; `Judge.taken` seeks a continuation with which all of them are shifted up to the
one that covers the token's last byte, `Judge.confirmed` repeats a find with Lark as its users run it.
When: in `bench.lark_checks`, on tokens that a mask allows or refuses.
Limits: "taken" is certain; "not taken" means that none of the continuations tried did it. Lexing begins at a
lexeme of the whole document some lexemes before the token: where a token would make Lark cut what is before
that anew, nothing is found. (Lexing each text from its beginning would take 100 times as long.)
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput
from lark.lexer import BasicLexer, LexerThread
from lark.parsers.lalr_parser_state import ParserState
from lark.utils import TextSlice

CONTINUATIONS = (
    "",
    " ",
    "\n",
    "a",
    "0",
    '"',
    "'",
    "`",
    "*/",
    "a ",
    "=",
    ")",
    ";",
    "]",
    "}",
    ",",
    "000",
    "e1",
)
"""What may end a lexeme that a token leaves open, make it longer, or make it another one."""

BEFORE = 3
"""Lexemes of the document that are lexed again before the one in which a token begins."""

CONTEXT = 64
"""Characters kept before the first lexeme, for patterns that look behind them."""

FILLERS = ("", "a", "0", " ", ";", "\n", "(", "=")
"""Texts that a lexeme to be closed, such as a comment, may go on with."""

WORD = re.compile(r"(?<!\\)[A-Za-z]{2,}")
"""In patterns: what may be a word of the language."""

FOLDED = str.maketrans("\u0130\u0131\u017f", "iis")
"""Letters beyond ASCII that patterns take for ASCII ones where they ignore case."""

MOST_REMEMBERED = 1 << 20
"""Keywords looked up that are kept."""


def is_cut_and_shifted(lark: Lark, lexer: BasicLexer, text: str, covered: int) -> bool:
    """Whether Lark cuts a text up to the lexeme that ends at or after ``covered``, and shifts so far."""
    interactive = lark.parse_interactive("")
    state = LexerThread.from_text(lexer, text).state
    assert state is not None
    while state.line_ctr.char_pos < covered:
        try:
            token = lexer.next_token(state)
            assert token.start_pos is not None
            if token.start_pos >= covered:
                return True  # what covers the last character is ignored
            interactive.feed_token(token)
        except EOFError:
            return True  # the rest is ignored
        except UnexpectedCharacters:
            return state.line_ctr.char_pos >= covered
        except UnexpectedInput:
            return False
    return True


class Lexeme(NamedTuple):
    """Where a lexeme of a document begins, and the number of the parser's stack before it."""

    begin: int
    stack: int


class Place(NamedTuple):
    """A text up to some byte: all that the judge needs of it.

    Attributes:
        text: the last characters before the place.
        begin: where in them lexing begins.
        stack: number of the stack there.
        tail: bytes of a character that is not complete.
    """

    text: str
    begin: int
    stack: int
    tail: bytes


class Document(NamedTuple):
    """A text that Lark parses, and its lexemes, also those that are ignored."""

    text: str
    lexemes: list[Lexeme]


class Judge:
    """Answers for one grammar.

    Args:
        lark: built with parser "lalr" and lexer "basic".
    """

    def __init__(self, lark: Lark) -> None:
        self.lark = lark
        interactive = lark.parse_interactive("")
        self._lexer = cast(Any, interactive.lexer_thread.lexer)
        assert self._lexer.scanner, "asking for it builds `callback`, which is read below"
        self._configuration = copy(interactive.parser_state.parse_conf)
        self._configuration.callbacks = {}  # Lark's own way to ask without building trees
        start = (self._configuration.start_state,)
        self._stacks: list[tuple[int, ...]] = [start]
        self._numbers = {start: 0}
        self._shifts: dict[tuple[int, str], int] = {}
        self._keywords: dict[tuple[str, str], str] = {}
        patterns = [item.pattern for item in lark.terminals]
        literals = {pattern.value for pattern in patterns if pattern.type == "str"}
        words = (WORD.findall(pattern.value) for pattern in patterns if pattern.type != "str")
        self.literals = tuple(sorted(literals.union(*words)))
        """Terminals that are written as text, and the words in patterns."""
        beyond = {item for pattern in patterns for item in pattern.value if not item.isascii()}
        self._beyond = sorted(item.encode() for item in beyond)

    def document(self, text: str) -> Document:
        """Cut a text that Lark parses.

        Raises:
            ValueError: it does not.
        """
        lexemes, at, stack = [], 0, 0
        whole = TextSlice(text, 0, len(text))
        while at < len(text):
            lexemes.append(Lexeme(at, stack))
            found = self._lexeme(whole, at)
            stack = -1 if found is None else self._shifted(stack, found[0])
            if found is None or stack < 0:
                raise ValueError(f"Lark does not take the text beyond character {at}: {text[at : at + 20]!r}")
            at += found[1]
        return Document(text, lexemes)

    def places(self, document: Document, cuts: Sequence[int]) -> Iterator[Place]:
        """The places of a document after so many bytes each; ascending."""
        data = document.text.encode()
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        done = characters = number = 0
        for cut in cuts:
            characters += len(decoder.decode(data[done:cut]))
            done = cut
            tail = decoder.getstate()[0]
            while number + 1 < len(document.lexemes) and document.lexemes[number + 1].begin < characters:
                number += 1
            if not document.lexemes:
                yield Place("", 0, 0, tail)
                continue
            begin, stack = document.lexemes[max(number - BEFORE, 0)]
            first = max(begin - CONTEXT, 0)
            yield Place(document.text[first:characters], begin - first, stack, tail)

    def taken(
        self,
        place: Place,
        token: bytes,
        continuations: Sequence[str] = CONTINUATIONS,
        *,
        thorough: bool = False,
    ) -> bytes | None:
        """A continuation, in bytes, with which Lark takes the text at a place and a token, if any is found.

        Args:
            place: where the token would stand.
            token: its bytes.
            continuations: that are tried, besides the rests of literals that may have begun.
            thorough: try pairs of continuations, too, and all literals; where the token cuts a character, all
                characters instead.
        """
        for completed, added in _completed(place.tail + token, self._beyond, thorough):
            text = place.text + completed
            covered = len(text)
            for more in self._continuations(text, continuations, thorough, bool(added)):
                if self._takes(text + more, place.begin, place.stack, covered):
                    return added + more.encode()
        return None

    def confirmed(self, text: bytes, more: bytes) -> bool:
        """Whether Lark takes the text's last byte when ``more`` follows: read from the beginning."""
        whole = (text + more).decode()
        covered = len(text.decode(errors="replace"))
        return is_cut_and_shifted(self.lark, self._lexer, whole, covered)

    def unclosed(self, place: Place, token: bytes, more: bytes) -> bool:
        """Whether a find rests on an opening that is never closed, such as that of a comment.

        It does if what Lark cuts at some place into short lexemes would be one lexeme up to the token's end
        and beyond, whatever came next, if only one of the continuations came in the end.
        """
        data = place.tail + token
        completed = next(
            (text for text, added in _completed(data, self._beyond, True) if more.startswith(added)), None
        )
        if completed is None:
            return False
        text = place.text + completed
        covered, at = len(text), place.begin
        found_text = text + (data + more).decode()[len(completed) :]
        found = TextSlice(found_text, 0, len(found_text))
        while at < covered:
            lexeme = self._lexeme(found, at)
            if lexeme is None:
                return False
            if at + lexeme[1] < covered and any(self._is_open(text, at, end) for end in CONTINUATIONS):
                return True
            at += lexeme[1]
        return False

    def _is_open(self, text: str, at: int, end: str) -> bool:
        for filler in FILLERS:
            whole = text + filler + end
            lexeme = self._lexeme(TextSlice(whole, 0, len(whole)), at)
            if lexeme is None or at + lexeme[1] < len(text + filler):
                return False
        return True

    def _continuations(
        self, text: str, continuations: Sequence[str], thorough: bool, cut: bool
    ) -> Iterator[str]:
        yield from continuations
        rests = sorted(self._rests(text, thorough), key=len)
        yield from rests
        if thorough:
            yield from (rest + more for rest in rests for more in (" ", "a"))
            yield from (f"{rest} {literal}" for rest in rests for literal in self.literals)
        if thorough and not cut:
            yield from self.literals
            yield from (f" {literal}" for literal in self.literals)
            yield from (first + second for first in continuations for second in continuations)

    def _rests(self, text: str, every: bool) -> set[str]:
        """What is left of literals whose beginning ends the text: the longest beginnings, or all."""
        rests: set[str] = set()
        for size in range(min(12, len(text)), 0, -1):
            end = text[-size:].translate(FOLDED).lower()
            rests |= {
                item[size:] for item in self.literals if len(item) > size and item[:size].lower() == end
            }
            if rests and not every:
                break
        return rests

    def _takes(self, text: str, at: int, stack: int, covered: int) -> bool:
        whole = TextSlice(text, 0, len(text))
        while at < covered:
            found = self._lexeme(whole, at)
            if found is None:
                return False
            stack = self._shifted(stack, found[0])
            if stack < 0:
                return False
            at += found[1]
        return True

    def _lexeme(self, whole: TextSlice[str], at: int) -> tuple[str | None, int] | None:
        """The terminal at a place, None if it is ignored, and its length; None if there is none."""
        matched = self._lexer.match(whole, at)
        if matched is None:
            return None
        value, terminal = matched
        if terminal in self._lexer.ignore_types:
            return None, len(value)
        callback = self._lexer.callback.get(terminal)
        if callback is not None:  # a keyword instead of the name that matched
            keyword = self._keywords.get((terminal, value))
            if keyword is None:
                if len(self._keywords) >= MOST_REMEMBERED:
                    self._keywords.clear()
                keyword = self._keywords[terminal, value] = callback(Token(terminal, value)).type
            terminal = keyword
        return terminal, len(value)

    def _shifted(self, stack: int, terminal: str | None) -> int:
        """The number of the stack after a terminal is shifted, -1 if the parser refuses it."""
        if terminal is None:
            return stack
        after = self._shifts.get((stack, terminal))
        if after is None:
            states = self._stacks[stack]
            parser = ParserState(self._configuration, None, list(states), [None] * (len(states) - 1))  # type: ignore[arg-type]
            try:
                parser.feed_token(Token(terminal, ""))
                after = self._number(tuple(parser.state_stack))
            except UnexpectedInput:
                after = -1
            self._shifts[stack, terminal] = after
        return after

    def _number(self, states: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(states, len(self._stacks))
        if number == len(self._stacks):
            self._stacks.append(states)
        return number


def _completed(data: bytes, known: Sequence[bytes], thorough: bool) -> Iterator[tuple[str, bytes]]:
    """The characters of some bytes, the last one completed if it is cut; with what was added to it.

    Args:
        data: the bytes.
        known: characters that matter, in UTF-8.
        thorough: try all characters of two or three bytes.
    """
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
    last = range(0x80, 0xC0) if thorough else (0x80, 0xA0, 0xAA, 0xB5, 0xBF)
    middle = range(0x80, 0xC0) if thorough and missing == 2 else (0x80, 0x90, 0x9F, 0xA0, 0xBF)
    rests = [bytes([end]) for end in last]
    for _ in range(missing - 1):
        rests = [bytes([value]) + rest for value in middle for rest in rests]
    matter = [item[len(tail) :] for item in known if item.startswith(tail)]
    for rest in dict.fromkeys(matter + rests):
        try:
            yield characters + (tail + rest).decode(), rest
        except UnicodeDecodeError:
            continue
