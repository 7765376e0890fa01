"""Who is right in `tests.robustness.fuzz`: plain XGrammar's `accept_token`, or Lark itself.

What: a `Truth` follows the steps of a walk, and says which tokens may come next.
When: in `walks`.
Limits: of Lark (`tests.lark_brute_force`), a token that is said to be refused was not completed by any
continuation of a few characters; before it counts as wrong, longer ones are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import xgrammar
from numpy.typing import NDArray

from hybrid.testing.mask_comparison import bits_of
from tests.lark_brute_force import Oracle
from tests.robustness.fuzz.inputs import SPARSE, Case

Bits = NDArray[np.bool_]


class PlainTruth:
    """Plain XGrammar over the whole vocabulary.

    Attributes:
        size, tokens, stops: of the vocabulary and of the matcher.
        now: which tokens are taken, since the last `settle`.
        plain: its own mask, since the last `fill`; None for Lark.
        matcher: of XGrammar; None for Lark.
        is_far: the text may get beyond what is promised, so that a walk has to begin anew.

    Args:
        compiled: by plain XGrammar.
        case: for its options.
        vocabulary: of the case.
    """

    is_far = False

    def __init__(self, compiled: xgrammar.CompiledGrammar, case: Case, vocabulary: Any) -> None:
        self.matcher = xgrammar.GrammarMatcher(compiled, **case.options)
        self.size, self.tokens = vocabulary.size, vocabulary.tokens
        self.stops = frozenset(self.matcher.stop_token_ids)
        self._parents: list[Any] = []
        self._row = xgrammar.allocate_token_bitmask(1, self.size)
        self._all = case.vocabulary == SPARSE
        self._on_forks = case.drawn.counts
        # XGrammar takes an id without text that is not a stop id any more as empty text
        former = set(vocabulary.stop_token_ids) - self.stops
        self._nothing = frozenset(token for token in former if not self.tokens[token])

    def is_terminated(self) -> bool:
        return bool(self.matcher.is_terminated())

    def is_completed(self) -> bool:
        return bool(self.matcher.is_completed())

    def accept_token(self, token: int) -> bool:
        return token not in self._nothing and bool(self.matcher.accept_token(token))

    def accept_string(self, text: bytes) -> bool:
        return bool(self.matcher.accept_string(text))

    def rollback(self, count: int) -> None:
        self.matcher.rollback(count)

    def reset(self) -> None:
        self.matcher.reset()

    def fork(self) -> None:
        """Go on with a copy, until `back`."""
        self._parents.append(self.matcher)
        self.matcher = self.matcher.fork()

    def back(self) -> None:
        self.matcher = self._parents.pop()

    def fill(self) -> None:
        self._row.fill_(-1)
        self.matcher.fill_next_token_bitmask(self._row)
        self.plain: Bits = bits_of(self._row[0], self.size).copy()

    def sure(self, different: NDArray[np.intp], row: Bits) -> int | None:
        return int(different[0])

    def settle(self, rows: Sequence[Bits]) -> Bits:
        """Which tokens are taken; of a real vocabulary, where masks of ours differ."""
        self.now = self.plain.copy()
        differs = [row != self.plain for row in rows] or [np.zeros(self.size, np.bool_)]
        asked = range(self.size) if self._all else np.flatnonzero(np.any(differs, axis=0)).tolist()
        for token in asked:
            self.now[token] = self._takes(token)
        return self.now

    def _takes(self, token: int) -> bool:
        if token in self._nothing:
            return False
        if self._on_forks:
            return bool(self.matcher.fork().accept_token(token))
        if not self.matcher.accept_token(token):
            return False
        self.matcher.rollback(1)
        return True


FAR = 10
"""Bytes of a text over a Lark grammar: more than 16 lexemes are not given back (docs/lark.md)."""


class LarkTruth:
    """Lark itself: the texts of the steps taken, and the oracle about them.

    Args:
        oracle: of the grammar.
        longer: one with longer continuations, made where it is needed.
        case: for its options.
        vocabulary: of the case.
    """

    plain = None
    matcher = None

    def __init__(self, oracle: Oracle, longer: Callable[[], Oracle], case: Case, vocabulary: Any) -> None:
        self._oracle, self._longer = oracle, longer
        self.size, self.tokens = vocabulary.size, vocabulary.tokens
        given = case.options.get("override_stop_tokens")
        self.stops = frozenset(vocabulary.stop_token_ids if given is None else given)
        self._ends_itself = bool(case.options.get("terminate_without_stop_token"))
        self._texts: list[bytes] = [b""]
        self._stopped = False
        self._parents: list[tuple[list[bytes], bool]] = []
        letters = set("".join(case.drawn.texts))
        self._near = [
            token
            for token, text in enumerate(self.tokens)
            # bytes of known characters may make others, which the oracle does not know
            if text and (case.vocabulary == SPARSE or letters.issuperset(text.decode(errors="replace")))
        ]

    @property
    def is_far(self) -> bool:
        return len(self._texts[-1]) > FAR

    def is_terminated(self) -> bool:
        return self._stopped or (self._ends_itself and self.is_completed())

    def is_completed(self) -> bool:
        return self._oracle.complete(self._texts[-1])

    def accept_token(self, token: int) -> bool:
        if self.is_terminated() or not 0 <= token < self.size:
            return False
        if token in self.stops:
            self._stopped = self.is_completed()
            if self._stopped:
                self._texts.append(self._texts[-1])
            return self._stopped
        return bool(self.tokens[token]) and self.accept_string(self.tokens[token])

    def accept_string(self, text: bytes) -> bool:
        if self.is_terminated() or not self._oracle.viable(self._texts[-1] + text):
            return False
        self._texts.append(self._texts[-1] + text)
        return True

    def rollback(self, count: int) -> None:
        del self._texts[-count:]
        self._stopped = False

    def reset(self) -> None:
        self._texts, self._stopped = [b""], False

    def fork(self) -> None:
        self._parents.append((self._texts.copy(), self._stopped))

    def back(self) -> None:
        self._texts, self._stopped = self._parents.pop()

    def fill(self) -> None:
        pass

    def settle(self, rows: Sequence[Bits]) -> Bits:
        self.now = np.zeros(self.size, np.bool_)
        asked = [token for token in self._near if token not in self.stops]
        texts = [self.tokens[token] for token in asked]
        self.now[asked] = self._oracle.allowed_tokens(self._texts[-1], texts)
        self.now[list(self.stops)] = self.is_completed()
        return self.now

    def sure(self, different: NDArray[np.intp], row: Bits) -> int | None:
        """A token that Lark takes and the mask does not, or that the longer oracle refuses too."""
        for token in different.tolist():
            if not row[token] or token in self.stops:
                return int(token)
        for token in sorted(set(different.tolist()).intersection(self._near)):
            if not self._longer().viable(self._texts[-1] + self.tokens[token]):
                return int(token)
        return None


Truth = PlainTruth | LarkTruth


def truth_of(case: Case, vocabulary: Any) -> Callable[[], Truth]:
    """What makes a truth at its start, for each walk of a case.

    Raises:
        RuntimeError: plain XGrammar refuses the grammar.
    """
    if case.drawn.parser == "lalr":
        from lark import Lark

        lark = Lark(case.drawn.source, parser="lalr", lexer="basic", start="start")
        alphabet = "".join(case.drawn.texts)
        length = 3 if len(alphabet) < 7 else 2
        oracle = Oracle(lark, alphabet, length)
        longer = cache(lambda: Oracle(lark, alphabet, length + 1))
        return lambda: LarkTruth(oracle, longer, case, vocabulary)
    compiler = xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1, cache_enabled=False)
    compiled = compiler.compile_grammar(case.parse())
    return lambda: PlainTruth(compiled, case, vocabulary)
