"""A `LogitsProcessor` that makes `model.generate` of transformers write texts of a grammar.

What: `GrammarLogitsProcessor` finds the matcher for each row by comparing the row's tokens with the rows that
it has masked before. So it follows everything that a decoding loop does with rows: greedy search and
sampling, beam search (which reorders and duplicates rows), assisted decoding and prompt lookup (rows get
shorter after a rejected draft, and the assistant calls the same object), a second `generate`, another batch
size. `adapters.generations` says how prompts are distinguished from generated text.
When: pass ``logits_processor=[GrammarLogitsProcessor(schema, tokenizer)]`` to `generate`, or pass a compiled
grammar instead of schema and tokenizer. You may reuse the object. `is_complete` says which rows of the result
are complete; with ``max_new_tokens`` all of them are (docs/completion.md).
Limits: one `generate` at a time. For continuous batching use `adapters.continuous_batching`. An assistant
model with another tokenizer is refused as soon as its calls and those of the model are seen to alternate.

A step costs one comparison and one copy of the rows (two vector operations), and one matcher step for each
new token.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
import transformers

from adapters import score_rows
from adapters.generations import Generation, Ids, State
from adapters.grammars import compiled_grammars
from adapters.opportunistic import Sampling, first_choices, keep_only, sampling_from, second_choices
from adapters.score_rows import HistoryError, NoAllowedToken, RejectedToken
from equivalence.arguments import integer, integer_from, integers
from equivalence.errors import ArgumentError, BatchError, BudgetExceeded, MatcherError
from hybrid import GrammarMatcher, allocate_token_bitmask
from hybrid.healing import HealingMatcher
from hybrid.values.arguments import stop_ids

__all__ = ["GrammarLogitsProcessor", "HistoryError", "NoAllowedToken", "RejectedToken"]


class GrammarLogitsProcessor(transformers.LogitsProcessor):
    """Masks the scores of each row, so that only tokens are left that the grammar allows. It never changes
    its arguments.

    With several grammars, row r of n follows grammar ``r * len(compiled) // n``: `generate` repeats each
    prompt ``num_beams`` or ``num_return_sequences`` times in a row, so pass one grammar for each prompt.

    A row that has ended may only repeat a stop token. `generate` replaces the choice for such a row by
    padding, but not if beam search runs out of live beams and continues finished ones. Unmasked scores would
    then add free text to a finished sentence, and so would a stop token that `generate` does not know.

    Args:
        compiled: one grammar for all rows, or a list with one for each prompt, all with the same vocabulary.
            Each is a `hybrid.CompiledGrammar`; or, with a tokenizer, a JSON schema (a dict or text) or a
            pydantic model class. `semantics`, `max_whitespace_cnt` and `assert_formats` apply to schemas
            only.
        tokenizer: what to compile schemas for: the model's tokenizer, a `hybrid.Vocabulary` or a
            `hybrid.GrammarCompiler`. One compiler is kept for each tokenizer.
        max_whitespace_cnt: how many characters of white space may stand between two parts of a JSON text; -1
            means any number. None is the compiler's setting, or 256.
        semantics: what schemas mean, "xgrammar" or "json-schema" (docs/json-schema.md). None is the
            compiler's setting, by default "xgrammar".
        assert_formats: with "json-schema", whether `format` is checked. None is the compiler's setting, by
            default yes.
        prompt_length: how many columns of `input_ids` are prompt, including padding. None lets the processor
            find out; the module's docstring says how. You may assign it between two `generate` calls.
        override_stop_tokens: ids that end a row, in place of the vocabulary's stop ids. Pass them to
            `generate` as ``eos_token_id``, too.
        pad_token_id: the id that `generate` writes after a row that was not ended by the grammar, but by
            ``stop_strings`` or ``max_time``. None is the tokenizer's. Stop ids and ids without text are
            recognised without it.
        on_masked_token: what to do if a row was continued with a token that was masked out. ``"error"``
            raises `RejectedToken`. ``"finish"`` treats the row as ended, which is right for draft models
            whose drafts are not masked, because they are rejected later. The impossible beams that beam
            search adds under ``do_sample=True`` are recognised and ended in both cases.
        max_new_tokens: the number that is passed to `generate`, too. Then every row is complete within this
            number of tokens, because tokens that leave no room for the rest are masked out. A warning says
            if the search for a text that short was given up, so that a row may be cut off. None: no limit.
        prefix: text or bytes with which the generated text begins before the grammar starts: what
            `hybrid.healing.heal` has removed from a prompt. One for all prompts, or a list with one for
            each.
        opportunistic: let the model choose a token first, and compute a mask only if the grammar refuses it.
            The processor then draws tokens itself, and leaves `generate` only one token to choose. The value
            says how to draw: the `GenerationConfig` that is passed to `generate`, an
            `adapters.opportunistic.Sampling`, or a temperature, 0 for greedy decoding. Not for beam search.
            None always masks.

    Attributes:
        asked, refused: how many choices of the model were tried, and how many the grammar refused.

    Raises:
        VocabularyError: the grammars' vocabularies differ, or the scores have fewer columns than ids.
        ArgumentError: an argument has another type, or a number is below 0; or ``max_new_tokens`` is too
            small for any text of a grammar.
        UnsupportedGrammar, BudgetExceeded: with ``max_new_tokens``, if shortest texts of a grammar cannot be
            found.
        BatchError: of the numbers of grammars and of prefixes, neither is a multiple of the other.
        BatchError, NoAllowedToken, RejectedToken, HistoryError: raised by calls, which then reset the state.
    """

    supports_continuous_batching = False

    def __init__(
        self,
        compiled: Any,
        tokenizer: Any = None,
        *,
        semantics: str | None = None,
        max_whitespace_cnt: int | None = None,
        assert_formats: bool | None = None,
        prompt_length: int | None = None,
        override_stop_tokens: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        on_masked_token: Literal["error", "finish"] = "error",
        max_new_tokens: int | None = None,
        prefix: str | bytes | Sequence[str | bytes] = b"",
        opportunistic: float | Sampling | transformers.GenerationConfig | None = None,
    ) -> None:
        self._grammars = compiled_grammars(compiled, tokenizer, semantics, max_whitespace_cnt, assert_formats)
        if on_masked_token not in ("error", "finish"):
            raise ArgumentError(f"on_masked_token must be 'error' or 'finish', but is {on_masked_token!r}")
        self.prompt_length = prompt_length
        self._on_masked_token = on_masked_token
        self._vocabulary = self._grammars[0].vocabulary
        self._override = stop_ids(override_stop_tokens, self._vocabulary.size)
        stops = self._vocabulary.stop_token_ids if self._override is None else self._override
        self._stop_row = score_rows.bitmask_row(stops, self._vocabulary.size)
        # No mask allows these unless the grammar may end, so if one is rejected, `generate` has padded the
        # row.
        self._padding = {*stops, *self._vocabulary.special_token_ids}
        pad_token_id = getattr(tokenizer, "pad_token_id", None) if pad_token_id is None else pad_token_id
        if pad_token_id is not None:
            self._padding.add(integer(pad_token_id, "pad_token_id"))
        self._limit = None if max_new_tokens is None else integer_from(1, max_new_tokens, "max_new_tokens")
        self._prefixes = [*prefix] if isinstance(prefix, (list, tuple)) else [cast("str | bytes", prefix)]
        if not self._prefixes:
            raise ArgumentError(
                "prefix must be text, bytes, or a list with one of them for each prompt, but is an empty list"
            )
        counts = len(self._grammars), len(self._prefixes)
        if max(counts) % min(counts):
            raise BatchError(
                f"{counts[1]} prefixes cannot be shared among {counts[0]} grammars; pass one, or one for "
                "each prompt"
            )
        for one in self._prefixes:  # refuse other types now
            HealingMatcher(self._grammars[0], one, override_stop_tokens=self._override)
        self._sampling = None if opportunistic is None else sampling_from(opportunistic)
        self.asked = self.refused = 0
        if self._limit is not None:
            self._refuse_short(self._limit)
        self._bitmask: torch.Tensor | None = None
        self.reset()

    @property
    def prompt_length(self) -> int | None:
        """How many columns of `input_ids` are prompt; None lets the processor find out."""
        return self._prompt_length

    @prompt_length.setter
    def prompt_length(self, columns: int | None) -> None:
        self._prompt_length = None if columns is None else integer_from(0, columns, "prompt_length")

    def reset(self) -> None:
        """Forget all rows and free their matchers. The next call starts a generation."""
        self._generation: Generation | None = None
        self._previous: Generation | None = None  # kept without matchers, to notice interleaved calls
        self._last_ids: torch.Tensor | None = None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return masked scores in a new tensor, because prompt lookup passes the same tensor repeatedly."""
        try:
            score_rows.check_call(input_ids, scores)
            score_rows.check_width(scores, self._vocabulary.size)
            rows = self._locate(input_ids)
            for row, masked_before in self._rejected.items():
                self._judge(row, masked_before, rows, scores)
            return self._mask(rows, scores)
        except BaseException:
            self.reset()  # some matchers may have moved and others not
            raise

    def allowed(self, input_ids: torch.Tensor, width: int) -> torch.Tensor:
        """Return which ids are allowed next in each row, as bool[rows, width]. For scores that are not torch
        tensors.

        Args:
            input_ids: as for a call.
            width: number of scores of each row.

        Raises:
            VocabularyError, BatchError, NoAllowedToken, RejectedToken, HistoryError: as for a call.
        """
        scores = torch.zeros((len(input_ids), width), dtype=torch.float32, device="cpu")
        return self(input_ids, scores) > -torch.inf  # type: ignore[arg-type]

    def is_complete(self, row: Any, index: int | None = None) -> bool:
        """Whether the text that `generate` wrote into a row is complete, and was not cut off.

        Args:
            row: the ids of one row as `generate` returned them, including the prompt: a tensor of one
                dimension or a sequence of integers. Padding and stop tokens after the text are ignored.
            index: the number of the row, as the processor was called with it: with beam search, prompt p
                begins at row ``p * num_beams``. It matters only if equal prompts have different grammars:
                without it, the text is complete if it is complete under any of these.

        Raises:
            ArgumentError: the row or its number has another type.
            HistoryError: the row does not begin with its prompt, or with any prompt, of the last generation.
        """
        ids, generation = integers(row, "row"), self._generation
        prompts = [] if generation is None else generation.prompt.tolist()
        found = [i for i, prompt in enumerate(prompts) if ids[: len(prompt)] == prompt]
        if generation is not None and index is not None:
            index = integer(index, "index")
            if len({generation.groups[i] for i in found}) > 1:
                found = [i for i in found if i == index]
        if generation is None or not found:
            raise HistoryError(
                f"this row of {len(ids)} tokens does not begin with a prompt of the processor's last "
                "generation; pass a row that generate returned, before you use the processor again"
            )
        states = [self._new_state(generation, i) for i in found]
        for state in states:  # the same prompt may have several grammars
            for token in ids[state.prompt_length :]:
                state.append(token)
        return any(state.is_complete(self._padding) for state in states)

    def _refuse_short(self, limit: int) -> None:
        """Raise `ArgumentError` unless each grammar has a text of at most `limit` tokens."""
        count = max(len(self._grammars), len(self._prefixes))
        for row in range(count):
            matcher = self._matcher(row, count)
            is_completable = matcher.can_complete_within(limit)
            if is_completable is None:
                warnings.warn(
                    "could not find out whether a text of this grammar fits into "
                    f"max_new_tokens={limit}: texts may be cut off",
                    stacklevel=3,
                )
            elif not is_completable:
                known = matcher.shortest_completion()
                why = "no tokens of the vocabulary complete a text of this grammar"
                if known is not None:
                    numbers, fits = range(len(known)), matcher.can_complete_within
                    fewest = bisect_left(numbers, True, limit + 1, key=lambda n: bool(fits(n)))
                    why = f"the shortest text of this grammar needs {fewest} tokens"
                raise ArgumentError(f"max_new_tokens={limit} is too small: {why}")

    def new_matcher(self) -> GrammarMatcher:
        """Make a new matcher like that of the first row, before any text."""
        return self._matcher(0, 1)

    # --- which state does each row have? ---

    def _locate(self, input_ids: torch.Tensor) -> list[State]:
        self._rejected: dict[int, bool] = {}  # rows with a token that the grammar rejects: was it masked out?
        last, generation, length = self._last_ids, self._generation, input_ids.shape[1]
        if (
            last is not None
            and generation is not None
            and last.device == input_ids.device
            and length == last.shape[1] + 1
            and self.prompt_length in (None, generation.prompt.shape[1])
            and torch.equal(input_ids[:, :-1], last)
        ):  # every row has one more token: one comparison on the device and one token for each row
            for index, token in enumerate(input_ids[:, -1].tolist()):
                if not generation.rows[index].append(token):
                    self._rejected[index] = True
            generation.keep(generation.rows, length)
        else:
            host: Ids = input_ids.detach().to("cpu", torch.int64).numpy()
            generation = self._seek(host) if self.prompt_length is None else self._seek_fixed(host)
        self._generation = generation
        self._last_ids = input_ids.detach().clone()  # beam search reuses its buffers
        return generation.rows

    def _seek(self, host: Ids) -> Generation:
        """Return the generation to which the rows belong, by the rule of `adapters.generations`, moved to
        these rows."""
        now, (count, length) = self._generation, host.shape
        if now is None:
            return self._begin(host)
        start = now.prompt.shape[1]
        if length <= start or count != len(now.prompt) or not np.array_equal(host[:, :start], now.prompt):
            if count != len(now.prompt) and self._continues(host, now):
                raise HistoryError(
                    f"all calls of one generation must have the same number of rows, but {count} rows "
                    f"continue a generation of {len(now.prompt)} rows. For a new prompt, call reset() "
                    "first"
                )
            return self._begin(host)
        found = now.find(host)
        if None in found:
            if length <= now.longest + 1 and self._all_legal(host, start):
                raise HistoryError(
                    "cannot tell where the prompt ends: the rows begin with the current prompt "
                    f"({start} tokens), but the {length - start} tokens after it, which fit the "
                    "grammar, are not what was generated so far; call reset() before generate if this "
                    "is a new prompt, or pass prompt_length"
                )
            return self._begin(host)
        assert self._last_ids is not None
        back = length <= self._last_ids.shape[1]
        rows = self._move(now, found, host)
        # A loop only goes back to tokens that were chosen under a mask; anything else is a new prompt.
        if back and any(self._is_foreign(state) for state in rows):
            self._rejected = {}
            return self._begin(host)
        now.keep(rows, length)
        return now

    def _seek_fixed(self, host: Ids) -> Generation:
        """With a known prompt length: find states for the rows, or make new ones that read them."""
        now, length, start = self._generation, host.shape[1], self.prompt_length
        assert start is not None
        if length < start:
            raise HistoryError(
                f"the rows have {length} tokens, but prompt_length is {start}; correct it, or pass None"
            )
        if now is None or now.prompt.shape[1] != start or not np.array_equal(now.prompt, host[:, :start]):
            now = self._begin(host[:, :start])
        found: list[State | None] = now.find(host) if length > start else [None] * len(host)
        now.keep(self._move(now, found, host), length)
        return now

    def _begin(self, host: Ids) -> Generation:
        """Start a generation with all tokens as prompt."""
        count, grammars = len(host), len(self._grammars)
        for given, what in ((grammars, "grammars"), (len(self._prefixes), "prefixes")):
            if count % given:
                raise BatchError(
                    f"{count} rows cannot be shared among {given} {what}; pass one, or one for each prompt"
                )
        old = self._generation
        if old is not None and not np.array_equal(old.prompt, host):
            before = self._previous
            if self.prompt_length is None and before is not None and self._continues(host, before):
                raise HistoryError(
                    "these rows belong to an earlier generation: two generations use this processor "
                    "at the same time. Use one processor for each generation (an assistant model with "
                    "another tokenizer cannot be masked), or call reset() first if this is a new "
                    "prompt"
                )
            self._previous = old
            old.spare = {}
            for state in old.rows:
                del state.matcher  # only its ids are needed from here on
        numbers: dict[tuple[bytes, int], int] = {}
        most = max(grammars, len(self._prefixes))
        keys = [(row.tobytes(), index * most // count) for index, row in enumerate(host)]
        generation = Generation(host.copy(), [numbers.setdefault(key, len(numbers)) for key in keys])
        generation.rows = [self._new_state(generation, index) for index in range(count)]
        return generation

    def _new_state(self, generation: Generation, row: int) -> State:
        matcher = self._matcher(row, len(generation.prompt))
        return State(matcher, generation.prompt[row], generation.groups[row])

    def _matcher(self, row: int, count: int) -> GrammarMatcher:
        """Make a new matcher for row `row` of `count` rows."""
        grammar = self._grammars[row * len(self._grammars) // count]
        prefix = self._prefixes[row * len(self._prefixes) // count]
        if not prefix:
            return GrammarMatcher(grammar, override_stop_tokens=self._override)
        return HealingMatcher(grammar, prefix, override_stop_tokens=self._override)

    def _move(self, generation: Generation, sources: list[State | None], host: Ids) -> list[State]:
        """Return states for the rows, made from states from which they can be reached, or else new ones."""
        waiting = Counter(map(id, sources))
        rows = []
        for index, (source, row) in enumerate(zip(sources, host, strict=True)):
            if source is None:
                state = self._new_state(generation, index)
                for token in row[state.prompt_length :].tolist():
                    if not state.append(token):
                        self._rejected[index] = False
                rows.append(state)
                continue
            waiting[id(source)] -= 1
            # The last user of a state gets the state itself, others get a copy. A state that must go back is
            # always copied, because another row may still need it: groups of a diverse beam search take
            # turns.
            state = source if source.extends_to(row) and not waiting[id(source)] else source.fork()
            if not state.extends_to(row):
                state.rewind(len(row) - 1)
            if state.length < len(row):
                state.append(int(row[-1]))
            if state.ended == "rejected" and state.fed == len(row) - state.prompt_length - 1:
                self._rejected[index] = True
            rows.append(state)
        return rows

    def _is_foreign(self, state: State) -> bool:
        """Whether the row has a token that this processor would not have allowed."""
        if state.ended != "stop":
            return bool(state.ended)
        return any(token not in self._padding for token in state.generated[state.fed :].tolist())

    def _all_legal(self, host: Ids, start: int) -> bool:
        """Whether the grammar allows the text of each row from column ``start`` on."""
        for index, row in enumerate(host):
            state = State(self._matcher(index, len(host)), row[:start], 0)
            for token in row[start:].tolist():
                state.append(token)
                if self._is_foreign(state):
                    return False
        return True

    def _continues(self, host: Ids, generation: Generation) -> bool:
        """Whether every row is a step from some row of that generation."""
        start = generation.prompt.shape[1]
        if host.shape[1] <= start:
            return False
        reached = (any(state.reaches(row) for state in generation.states()) for row in host)
        return all(reached) and self._all_legal(host, start)

    def _judge(self, row: int, masked_before: bool, rows: list[State], scores: torch.Tensor) -> None:
        """Raise `RejectedToken` for a row with a token that is not allowed, unless there is a harmless
        reason."""
        state = rows[row]
        position = state.fed
        token = int(state.generated[position])
        if token in self._padding or (masked_before and self._on_masked_token == "finish"):
            return
        # Sampled beams: if the grammar allows fewer tokens than there are beams, `torch.multinomial` adds
        # tokens of probability 0. Such a beam has the score -inf and never wins, and another beam of the same
        # prompt lives on. Only beam search passes log probabilities, none of which is positive.
        alive = any(other.group == state.group and other.ended != "rejected" for other in rows)
        if masked_before and alive and bool(scores.amax() <= 0):
            return
        raise RejectedToken(
            f"row {row}: token {token} ({self._text([token])}) at position {position} after the prompt is "
            f"not allowed by the grammar after {self._text(state.generated[:position])}"
            f"{score_rows.expected(state)}. "
            + (
                "The mask forbade this token, so something chose it after the mask: another logits "
                "processor, padding of a row that another criterion ended (pass pad_token_id), or "
                "drafts that are not masked (pass on_masked_token='finish')"
                if masked_before
                else "Check prompt_length"
            )
        )

    # --- masking ---

    def _mask(self, rows: list[State], scores: torch.FloatTensor) -> torch.FloatTensor:
        size = self._vocabulary.size
        chosen: dict[int, int] = {}
        live = [index for index, state in enumerate(rows) if not state.ended]
        if self._sampling is not None:
            chosen = first_choices(rows, scores, self._sampling, self._limit)
            self.asked, self.refused = self.asked + len(live), self.refused + len(live) - len(chosen)
            if len(chosen) == len(rows):
                return keep_only(scores, chosen)  # type: ignore[return-value]
        bitmask = self._bitmask
        if bitmask is None or len(bitmask) != len(rows) or bitmask.is_pinned() != scores.is_cuda:
            with torch.inference_mode(False):  # it may be kept for a call outside of that mode
                bitmask = allocate_token_bitmask(len(rows), size)
            self._bitmask = bitmask = bitmask.pin_memory() if scores.is_cuda else bitmask
        for index, state in enumerate(rows):
            if state.ended:
                bitmask[index] = self._stop_row
            elif index in chosen:
                bitmask[index] = -1
            else:
                self._fill(state, bitmask, index)
        masked = keep_only(scores, chosen)
        score_rows.apply(masked, bitmask, size)
        masked[:, size:] = -torch.inf
        # This waits for the device, so the next call may overwrite the pinned bitmask.
        for index, empty in enumerate((masked.amax(dim=-1) == -torch.inf).tolist()):
            if empty and rows[index].ended:
                masked[index] = scores[index]  # the choice for this row is ignored
            elif empty:
                ids = torch.nonzero(score_rows.unpack(bitmask[index], size)).flatten().tolist()
                raise score_rows.no_token(index, rows[index], ids, self._vocabulary)
        if self._sampling is not None:
            refused = [index for index in live if index not in chosen]
            masked = keep_only(masked, second_choices(refused, scores, masked, self._sampling))
        return masked  # type: ignore[return-value]

    def _fill(self, state: State, bitmask: torch.Tensor, index: int) -> None:
        """Write the mask of a row. If there is a limit of tokens, the mask leaves room for the rest."""
        left = 0 if self._limit is None else self._limit - len(state.generated)
        if left > 0:
            try:
                state.matcher.fill_limited_bitmask(bitmask, left, index)
                return
            except MatcherError:
                pass  # the row has a token that was masked out, such as a draft that will be rejected
            except BudgetExceeded as error:
                warnings.warn(f"the text of row {index} may be cut off: {error}", stacklevel=3)
        state.matcher.fill_next_token_bitmask(bitmask, index)

    def _text(self, tokens: Iterable[int]) -> str:
        return score_rows.quoted(tokens, self._vocabulary)
