"""Finding words for places in texts of a compiled grammar.

What: an `Explainer` belongs to one compiled grammar, and its matchers share it. A `TextExplainer` belongs to
one text.
When: used by `hybrid.explain.position`; `hybrid.CompiledGrammar.explainer` keeps the `Explainer`.
Limits: use a `TextExplainer` from one thread at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import forks
from equivalence.deadline import Deadline
from hybrid.explain.earley_parser import EarleyParser
from hybrid.explain.explanation import Located
from hybrid.explain.lark_replay import LarkReplay, LexerStates
from hybrid.explain.rules import Rules, TimeUp, Unexplained
from hybrid.json_schema import SchemaGrammar
from hybrid.lark import LarkGrammar


@forks.with_unlocked_properties
class Explainer:
    """Reads texts of one grammar, to find words for places in them.

    Args:
        grammar: the grammar as XGrammar parsed it, or a Lark grammar, or a JSON schema's own.
        fixed: the tables of a Lark grammar, else None.
        has_network: whether a network was built from the grammar. Then the automata of its patterns are known
            to be of bounded size.

    Attributes:
        has_names: whether its rules have names. The rules of a JSON schema's own grammar are numbered, and
            have one state for each byte; there, literals are found by probing.
    """

    def __init__(self, grammar: Any, fixed: Any, has_network: bool) -> None:
        self._grammar, self._fixed, self._has_network = grammar, fixed, has_network
        self.has_names = not isinstance(grammar, SchemaGrammar)
        self._singles: dict[tuple[int, ...], NDArray[np.int64]] = {}
        self._maker: threading.Thread | None = None

    @cached_property
    def _named(self) -> Rules | LexerStates | str:
        """The rules; or what is known of the lexer of a Lark grammar; or why there are no names."""
        try:
            if isinstance(self._grammar, LarkGrammar):
                return LexerStates(self._fixed, self._grammar.terminals)
            return Rules(self._grammar, self._has_network)
        except Unexplained as why:
            return str(why)

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds; 0 if nothing was explained."""
        named: Rules | LexerStates | str = self.__dict__.get("_named", "")
        size = 0 if isinstance(named, str) else named.nbytes
        return size + sum(one.nbytes for one in list(self._singles.values()))

    def singles(self, tokens: Sequence[bytes], stops: tuple[int, ...]) -> NDArray[np.int64]:
        """`singles_of`, cached for the last set of stop ids; it takes 5 ms for 131,072 tokens."""
        found = self._singles.get(stops)
        if found is None:
            found = singles_of(tokens, stops)
            self._singles = {stops: found}  # other threads may replace it at once
        return found

    def parser(self, deadline: Deadline) -> EarleyParser | LarkReplay:
        """A new parser at the start of a text.

        Raises:
            TimeUp: the grammar's names are still being read; a later call may have them.
            Unexplained: there are no words for this grammar.
        """
        if deadline.left is not None and "_named" not in self.__dict__:
            # in a thread, because reading a large grammar cannot be interrupted; later calls wait for the
            # same thread, unless they are in a forked process
            maker = self._maker
            if maker is None or not maker.is_alive():
                maker = threading.Thread(target=lambda: self._named, daemon=True)
                maker.start()
                self._maker = maker
            maker.join(deadline.left)
            if maker.is_alive():
                raise TimeUp
        named = self._named
        if isinstance(named, str):
            raise Unexplained(named)
        return LarkReplay(named) if isinstance(named, LexerStates) else EarleyParser(named)


class TextExplainer:
    """The words of one text, and of texts with the same beginning.

    Args:
        explainer: the grammar's explainer.
    """

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._parser: EarleyParser | LarkReplay | None = None
        self._text = b""
        self._why = ""

    def at(self, text: bytes, deadline: Deadline) -> Located:
        """The words for the end of a text that the grammar allows; `Located.cut_short` if time ran out."""
        if not self._explainer.has_names:
            return Located([], {})
        # texts that begin with one without words have none, either
        if not self._why or not text.startswith(self._text):
            self._why = ""
            try:
                return self._read(text, deadline)
            except TimeUp as why:
                return Located([], {}, (), f"names of rules and literals are missing: {why}", True)
            except Unexplained as why:
                self._why, self._text, self._parser = str(why), text, None
        return Located([], {}, (), f"names of rules and literals are missing: {self._why}")

    def _read(self, text: bytes, deadline: Deadline) -> Located:
        if self._parser is None:
            self._parser, self._text = self._explainer.parser(deadline), b""
        if not text.startswith(self._text):
            same = _common(text, self._text)
            self._parser.back_to(same)
            self._text = text[:same]
        try:
            self._parser.read(text[len(self._text) :], deadline)
        finally:
            self._text = text[: self._parser.length]
        return self._parser.found(deadline)


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix of two texts."""
    if one.startswith(other) or other.startswith(one):
        return min(len(one), len(other))
    return next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)


def singles_of(tokens: Sequence[bytes], stops: Sequence[int]) -> NDArray[np.int64]:
    """int64[256]: for each byte, an id with this byte as its text that is not a stop id; or -1."""
    found = np.full(256, -1, np.int64)
    ends = frozenset(stops)
    for number, token in enumerate(tokens):
        if len(token) == 1 and number not in ends:
            found[token[0]] = number
    return found
