"""The matcher: XGrammar's `GrammarMatcher` on every strategy, mask by mask the same.

What: on "representatives" a mask is decided per class by XGrammar and expanded by the gather; a token is
accepted by feeding XGrammar its own bytes, because classes are equal for masks, not for what they leave
behind (docs/theory.md). Where ids or the number of tokens count, XGrammar is fed representatives instead, of
classes that leave the same behind. Stop tokens are this matcher's own set, outside of all classes.
When: one per sequence; not for concurrent use, while different matchers may run in different threads.
Limits: bitmasks are int32, on the CPU, one row of ceil(V / 32) words.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from time import perf_counter
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch
import xgrammar
from numpy.typing import NDArray

from equivalence import ArgumentError, BudgetExceeded, HybridError, MatcherError, VocabularyError
from equivalence.arguments import flag, integer, integer_from
from hybrid.api.arguments import stop_ids, temperature_of, text_of, whole_characters
from hybrid.api.bitmask import NO_ROWS, Rows, TensorRows, row_number
from hybrid.api.compiled import CompiledGrammar
from hybrid.api.draft_tree import traverse
from hybrid.representatives.handover import FACTOR, SLOW_SECONDS, read_again
from hybrid.representatives.token_level import missing_bytes

ENDED = "the matcher has terminated: there is no next token"

Step: TypeAlias = "tuple[int | bytes, bool, Step | None]"
"""What was read, a token or text; whether classes are tried from then on; the step before."""


class GrammarMatcher:
    """Follows one sequence through a grammar: masks out, tokens in.

    Args:
        compiled_grammar: what `hybrid.GrammarCompiler` made.
        override_stop_tokens: ids that end this sequence, in place of the vocabulary's stop ids. An id that
            no longer ends the sequence is ordinary text, or nothing if it has no text.
        terminate_without_stop_token: terminate as soon as the grammar can end.
        max_rollback_tokens: deprecated in XGrammar, ignored: rollback is unlimited.
        default_temperature: as in XGrammar, for grammars that set temperatures.

    Raises:
        HybridError: not a compiled grammar of ours. VocabularyError: stop ids out of range, or none.
        ArgumentError: a temperature below 0 or not finite; anything else that is not allowed.
    """

    _rows: TensorRows = NO_ROWS  # of the last mask

    def __new__(cls, compiled_grammar: CompiledGrammar, **options: Any) -> GrammarMatcher:
        if cls is GrammarMatcher and getattr(compiled_grammar, "classifier", None) is not None:
            from hybrid.classifier.matcher import ClassifierMatcher

            cls = ClassifierMatcher
        return object.__new__(cls)

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | Iterable[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise HybridError(
                f"compiled_grammar is {type(compiled_grammar).__name__}, allowed is what "
                "hybrid.GrammarCompiler returns"
            )
        if max_rollback_tokens != -1:
            warnings.warn(
                "max_rollback_tokens is ignored: rollback is unlimited", DeprecationWarning, stacklevel=2
            )
        free_end = flag(terminate_without_stop_token, "terminate_without_stop_token")
        vocabulary = compiled_grammar.vocabulary
        stops = stop_ids(override_stop_tokens, vocabulary.size)
        self._compiled = compiled_grammar
        self._default_temperature = temperature_of(default_temperature)
        self._begin(vocabulary.stop_token_ids if stops is None else stops, free_end)

    def _begin(self, stops: tuple[int, ...], terminate_without_stop_token: bool) -> None:
        """Start on XGrammar."""
        options: dict[str, Any] = {"terminate_without_stop_token": terminate_without_stop_token}
        if self._default_temperature is not None:
            options["default_temperature"] = self._default_temperature
        if self._compiled.gather is None and stops != self._compiled.vocabulary.stop_token_ids:
            options["override_stop_tokens"] = list(stops)
        assert self._compiled.engine is not None
        self._inner = xgrammar.GrammarMatcher(self._compiled.engine, **options)
        self._made = 0
        self._stops: tuple[int, ...] = stops
        self._free_end = terminate_without_stop_token
        self._step: Step | None = None
        self._check_stops()
        self._prepare()

    def _check_stops(self) -> None:
        """Refuse other stop ids than the vocabulary's where they might decide about a budget of tokens."""
        features = self._compiled.features
        if (
            features is None
            or not features.max_tokens
            or self._stops == self._compiled.vocabulary.stop_token_ids
        ):
            return
        vocabulary = self._compiled.vocabulary
        firsts = {token[0] for token_id in self._stops if len(token := vocabulary.tokens[token_id]) == 1}
        if missing_bytes(vocabulary, firsts, (*features.named, *self._stops)):
            raise VocabularyError(
                f"override_stop_tokens is {list(self._stops)}, which leaves no other token for the same "
                "byte; with max_tokens allowed are ids that leave one, or strategy='engine'"
            )

    def _prepare(self) -> None:
        """What follows from the compiled grammar and the stop set alone."""
        vocabulary = self._compiled.vocabulary
        self._tokens = vocabulary.tokens
        self._width = (vocabulary.size + 31) // 32
        self._size = vocabulary.size
        self._stop_set = frozenset(self._stops)
        self._mask_seconds = self._compiled.mask_seconds
        self._gather = self._compiled.gather
        classes = self._compiled.classes
        engine = self._compiled.engine
        assert engine is not None
        # behind the vocabulary's ids, or the classes: missing prefixes; behind classes also the stop token,
        # and an id that stands for what is never taken
        inner_size = engine.tokenizer_info.vocab_size
        self._class_mask = torch.empty((1, (inner_size + 31) // 32), dtype=torch.int32)
        self._class_words: NDArray[np.uint32] = self._class_mask.numpy()[0].view(np.uint32)
        self._has_more = inner_size > self._size
        # stop ids without text that do not stop any more: XGrammar takes them as empty text
        stopped = set(vocabulary.stop_token_ids) - self._stop_set
        self._void_words = [(t >> 5, np.uint32(1 << (t & 31))) for t in stopped if not self._tokens[t]]
        # and those with text as text, of which its tables, made for its own stop tokens, say nothing
        self._revived = sorted(t for t in stopped if self._tokens[t]) if self._gather is None else []
        if self._gather is None or classes is None:
            return
        self._stop_class = self._compiled.engine_stop
        self._class_of_token = classes.class_of_token
        features = self._compiled.features
        self._by_class = features is not None and features.cut_matters
        self._named: frozenset[int] = frozenset(
            features.named if features is not None and features.beyond_stacks else ()
        )
        self._trial, self._trial_after = classes.trial, classes.trial_after
        self._all_classes = range(classes.n_classes)
        representatives = classes.representatives.tolist() if self._trial_after else []
        self._long_classes = [i for i, token in enumerate(representatives) if len(self._tokens[token]) > 1]
        # XGrammar's masks over the whole vocabulary know its own stop tokens only
        usual = self._stops == vocabulary.stop_token_ids
        self._rival, self._slow_seconds = (self._compiled.rival if usual else None), SLOW_SECONDS
        self._trial_on_forks = features is not None and (features.max_chars or features.max_tokens)
        self._stop_words = [(t >> 5, np.uint32(1 << (t & 31))) for t in self._stops]
        # a bit that is 0 in every mask means that masks always need applying
        classless_stops = sum(int(classes.class_of_token[t] < 0) for t in self._stops)
        self._always_applied = self._compiled.classless > classless_stops

    @property
    def compiled_grammar(self) -> CompiledGrammar:
        """What this matcher follows."""
        return self._compiled

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end this sequence."""
        return list(self._stops)

    @property
    def max_rollback_tokens(self) -> int:
        """Always -1: rollback is unlimited."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar asks for here, as in XGrammar."""
        return self._inner.temperature

    def fill_next_token_bitmask(
        self, bitmask: torch.Tensor | NDArray[np.int32], index: int = 0, *, debug_print: bool = False
    ) -> bool:
        """Overwrite row `index` with the mask of the next token: bit 1 iff `accept_token` would take it.

        Args:
            bitmask: int32, on the CPU, shape (rows, ceil(V / 32)), or one such row.
            index: the row.
            debug_print: let XGrammar print its state.

        Returns:
            Whether the mask forbids anything, that is, needs to be applied.

        Raises:
            BitmaskError: wrong dtype, shape, device or row; nothing was written.
            MatcherError: the matcher has terminated. It is a `RuntimeError`, as XGrammar's.
        """
        return self._fill(self._row(bitmask, index), debug_print)

    def _fill(self, row: NDArray[np.uint32], debug_print: bool = False) -> bool:
        """Overwrite a row of words, which was looked at, with the mask; whether it forbids anything."""
        began = perf_counter()
        try:
            if self._gather is None:
                # into a row of our own: XGrammar ignores strides, and may leave an all-ones mask unwritten
                self._class_mask.fill_(-1)
            needed = self._inner.fill_next_token_bitmask(self._class_mask, 0, debug_print=debug_print)
        except RuntimeError as error:
            self._refuse_ended(error)
        words = self._class_words
        if self._gather is None:
            self._check_time(began)
            row[:] = words[: self._width]
            for word, bit in self._void_words:
                row[word] &= ~bit
            for token in self._revived:
                bit = np.uint32(1 << (token & 31))
                row[token >> 5] &= ~bit
                if self._inner.fork().accept_token(token):
                    row[token >> 5] |= bit
            if self._has_more:
                row[-1] &= np.uint32(self._last_word)
            if self._has_more or self._revived:
                return self._forbids(row)
            return bool(needed) or bool(self._void_words)
        tried = self._trial or (self._step is not None and self._step[1])
        if tried:
            self._try_classes(self._all_classes if self._trial else self._doubtful(), began)
        self._check_time(began)
        self._gather.expand(words, row)
        if not tried:
            can_stop = bool(int(words[self._stop_class >> 5]) >> (self._stop_class & 31) & 1)
        elif self._free_end:
            can_stop = bool(self._inner.is_completed())
        else:
            can_stop = bool(self._inner.fork().accept_token(self._stop_class))
        for word, bit in self._stop_words:
            if can_stop:
                row[word] |= bit
            else:
                row[word] &= ~bit
        needed = self._forbids(row) if tried else bool(needed) or self._always_applied
        if self._rival is not None and (seconds := perf_counter() - began) > self._slow_seconds:
            self._think_again(seconds)
        return needed

    def _check_time(self, began: float) -> None:
        """Refuse a mask that took too long; its row is not written.

        Raises:
            BudgetExceeded: saying how long it took, and what to do.
        """
        if self._mask_seconds is not None and (seconds := perf_counter() - began) > self._mask_seconds:
            raise BudgetExceeded(
                f"a mask took {seconds:.3g} s or more, allowed are {self._mask_seconds:g} s "
                "(Budget.mask_seconds); end the sequence, or raise the bound"
            )

    def _think_again(self, seconds: float) -> None:
        """Go on in plain XGrammar after a mask of so many seconds, if that is faster by more than twice."""
        assert self._rival is not None
        rival = self._rival.after(seconds)
        if rival is None:
            return
        read: list[int | bytes] = []
        at = self._step
        while at is not None:
            read.append(at[0])
            at = at[2]
        other, there = read_again(
            rival, reversed(read), override_stop_tokens=self._stops or None,
            terminate_without_stop_token=self._free_end, default_temperature=self._default_temperature,
        )  # fmt: skip
        if other is None:
            self._rival = None
            return
        if seconds <= FACTOR * there:
            self._slow_seconds = max(SLOW_SECONDS, 2 * FACTOR * there)
            return
        self._rival.handed_over += 1
        compiled = self._compiled
        self.__dict__ = other.__dict__
        self._compiled = compiled
        if self._rival_note not in compiled.reason:
            object.__setattr__(compiled, "reason", compiled.reason + self._rival_note)

    _rival_note = "; sequences whose masks took over twice plain XGrammar's went on in 'engine'"

    @property
    def _last_word(self) -> int:
        """The bits of a row's last word that stand for ids."""
        return (1 << ((self._size & 31) or 32)) - 1

    def _refuse_ended(self, error: RuntimeError) -> NoReturn:
        """An error of XGrammar's, by name where it is that the matcher has terminated."""
        if self._inner.is_terminated():
            raise MatcherError(ENDED) from error
        raise error

    def _forbids(self, row: NDArray[np.uint32]) -> bool:
        """Whether a bit of a whole row is 0."""
        return bool((row[:-1] != 0xFFFFFFFF).any()) or bool(~int(row[-1]) & self._last_word)

    def _doubtful(self) -> list[int]:
        """The classes to try once an id was read that is text too: taken by the mask, and of several bytes.

        What goes wrong then is that a rule does not end where its callers are waiting. So `accept_token`
        may refuse what a table of masks takes as the beginning of a rule, and never takes more: what tables
        refuse it cannot read, and what is uncertain there is read as it reads. A first byte is an edge.
        """
        words = self._class_words
        return [number for number in self._long_classes if int(words[number >> 5]) >> (number & 31) & 1]

    def _try_classes(self, classes: Iterable[int], began: float) -> None:
        """Decide some classes by XGrammar's `accept_token` itself, where its masks may be wrong."""
        # a matcher of its own, so that Ctrl-C between a token and taking it back leaves this one as it was
        inner, words = self._inner.fork(), self._class_words
        for number in classes:
            bit = np.uint32(1 << (number & 31))
            # a token taken and taken back would not leave a budget's state as it was
            if self._trial_on_forks:
                taken = inner.fork().accept_token(number)
            else:
                taken = inner.accept_token(number)
                if taken:
                    inner.rollback(1)
            if taken:
                words[number >> 5] |= bit
            else:
                words[number >> 5] &= ~bit
            if self._mask_seconds is not None:
                self._check_time(began)

    def _row(self, bitmask: Any, index: Any) -> NDArray[np.uint32]:
        """The words of a row, looked at in this call."""
        if index.__class__ is not int:
            index = row_number(index)
        return self._rows_of(bitmask).row(index)

    def _rows_of(self, bitmask: Any) -> Rows:
        """The rows of a bitmask as they are now."""
        if self._rows.is_current(bitmask):
            return self._rows
        self._rows = NO_ROWS
        if not isinstance(bitmask, torch.Tensor):
            return Rows(bitmask, self._width, self._size)
        self._rows = TensorRows(bitmask, self._width, self._size)
        return self._rows

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token; False, with nothing changed, if the grammar does not take it here.

        Raises:
            ArgumentError: it is no integer (those of numpy and tensors without dimensions are), or a bool.
        """
        if token_id.__class__ is not int:
            token_id = integer(token_id, "token_id")
        if not 0 <= token_id < self._size:  # XGrammar would cut the id to 32 bits
            return False
        taken = self._take(token_id, debug_print)
        self._made += taken
        return taken

    def _take(self, token_id: int, debug_print: bool) -> bool:
        stops = token_id in self._stop_set
        if self._gather is None:
            # an overridden stop id without text: XGrammar would take it as empty text
            if not stops and not self._tokens[token_id]:
                return False
            return bool(self._inner.accept_token(token_id, debug_print=debug_print))
        if stops:
            return bool(self._inner.accept_token(self._stop_class, debug_print=debug_print))
        number = int(self._class_of_token[token_id])
        if number < 0:
            return False
        if self._by_class or token_id in self._named:
            taken = self._inner.accept_token(number, debug_print=debug_print)
        else:
            taken = self._inner.accept_string(self._tokens[token_id], debug_print=debug_print)
        if taken:
            self._note(token_id, token_id in self._trial_after)
        return bool(taken)

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Advance by text; all of it or nothing. Counts as one step for `rollback`.

        Raises:
            ArgumentError: it is neither str nor bytes (nor bytearray or memoryview, which are read as bytes).
        """
        text = text_of(input_str)
        taken = bool(self._inner.accept_string(text, debug_print=debug_print))
        self._made += taken
        if taken and self._gather is not None:
            self._note(text, False)
        return taken

    def _note(self, read: int | bytes, tried: bool) -> None:
        step = self._step
        self._step = (read, tried or (step is not None and step[1]), step)

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back the last steps, the stop token included.

        Raises:
            MatcherError: fewer steps were made; nothing changed. It is a `RuntimeError`, as XGrammar's.
            ArgumentError: no integer, or below 0.
        """
        if num_tokens.__class__ is not int or num_tokens < 0:
            num_tokens = integer_from(0, num_tokens, "num_tokens")
        self._check_made(num_tokens)
        ended = self._inner.is_terminated() and not self._free_end
        self._inner.rollback(num_tokens)
        self._made -= num_tokens
        for _ in range(num_tokens - ended):
            self._step = None if self._step is None else self._step[2]

    def _check_made(self, num_tokens: int) -> None:
        """Raise `MatcherError` where fewer steps were made."""
        if num_tokens > self._made:
            raise MatcherError(f"rollback of {num_tokens} steps, but {self._made} were made")

    def traverse_draft_tree(
        self,
        retrieve_next_token: torch.Tensor,
        retrieve_next_sibling: torch.Tensor,
        draft_tokens: torch.Tensor,
        token_bitmask: torch.Tensor,
        time_threshold: float = -1.0,
        temperatures: torch.Tensor | None = None,
    ) -> bool:
        """Fill one mask for each node of a tree of draft tokens, as in XGrammar; the state does not change.

        Args:
            retrieve_next_token: int64[nodes], the first child of each node, or -1. Node 0 is the root: its
                token has been accepted already.
            retrieve_next_sibling: int64[nodes], the next child of the same node, or -1.
            draft_tokens: int64[nodes], the token of each node.
            token_bitmask: int32[nodes, ceil(V / 32)]. A node that the grammar does not allow, and one after
                which it has ended, gets a row of zeros; what lies below it, rows that are not in the tree,
                and rows not reached in time stay as they are.
            time_threshold: seconds; 0 and less is no bound.
            temperatures: float32[nodes], gets the temperature of each node that has a mask, else -1.

        Returns:
            False if the time was up.

        Raises:
            BitmaskError, ArgumentError: an argument of another type or shape, or no tree; nothing was
                written.
        """
        return traverse(
            self,
            retrieve_next_token,
            retrieve_next_sibling,
            draft_tokens,
            token_bitmask,
            time_threshold,
            temperatures,
        )

    def reset(self) -> None:
        """Back to the start."""
        self._inner.reset()
        self._made = 0
        self._step = None

    def fork(self) -> GrammarMatcher:
        """An independent matcher in the same state."""
        twin = object.__new__(GrammarMatcher)
        twin.__dict__.update(self.__dict__)
        twin._inner = self._inner.fork()
        twin._class_mask = self._class_mask.clone()
        twin._class_words = twin._class_mask.numpy()[0].view(np.uint32)
        return twin

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a matcher cannot be copied or pickled: matcher.fork() makes an independent one in the same "
            "state, and another process makes its own and accepts the same tokens"
        )

    def is_terminated(self) -> bool:
        """Whether the sequence has ended: a stop token was accepted, or the grammar's end where asked."""
        return bool(self._inner.is_terminated())

    def is_completed(self) -> bool:
        """Whether what was read is a whole sentence of the grammar."""
        return bool(self._inner.is_completed())

    def find_jump_forward_string(self) -> str:
        """The longest text that the grammar forces next; the state does not change."""
        try:
            return str(self._inner.find_jump_forward_string())
        except UnicodeDecodeError as error:  # XGrammar's, where the text ends inside a character
            return whole_characters(bytes(error.object))
        except RuntimeError as error:
            self._refuse_ended(error)

    def get_captures(self, *, deduplicate: bool = True) -> Any:
        """Spans captured so far, as in XGrammar."""
        return self._inner.get_captures(deduplicate=flag(deduplicate, "deduplicate"))
