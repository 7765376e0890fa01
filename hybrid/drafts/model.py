"""Draft models: proposing likely next tokens from earlier texts of a grammar.

What: a `DraftModel` counts the tokens of the sequences of one compiled grammar, and proposes tokens, so that
the model can check several at once. A proposal is a guess, but the grammar allows each of its tokens after
those before it. So the model never checks tokens that a mask would forbid.
When: with any loop of speculative decoding: `adapters.drafts` for transformers, `propose` for engines.
Limits: one draft model for each compiled grammar; all of its sequences share it, in any threads. `most_bytes`
bounds its size. On "classifier", counts depend on the last tokens and on the top of the parser's stack;
elsewhere only on the last tokens and on forced text. Counts cannot be used for another grammar, and perhaps
not for another version. A draft ends early after `DRAFT_SECONDS`, or `Budget.mask_seconds` if that is less.

Source: Beurer-Kellner, Fischer and Vechev, "Guiding LLMs The Right Way: Fast, Non-Invasive Constrained
Generation" (ICML 2024): counts of next tokens by the state of scanner and parser. Here the last tokens are
part of the key too.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from equivalence import ArgumentError, ArtifactError, BudgetExceeded, HybridError
from equivalence.arguments import integer_from, path_of, shown
from equivalence.array_files import Unusable, read_arrays, write_arrays
from equivalence.deadline import Deadline
from hybrid.api.matcher import GrammarMatcher
from hybrid.classifier.base_store import NO_BYTE
from hybrid.classifier.classifier import forced_text
from hybrid.classifier.follower import ClassifierFollower
from hybrid.classifier.named_ids import ReadBothWays
from hybrid.compiled import CompiledGrammar
from hybrid.completion.follower import LimitedFollower
from hybrid.drafts import chains
from hybrid.drafts.counts import FIRST_SLOTS, SLOT_BYTES, Counts, check_slots
from hybrid.drafts.forced import Encode, Forced
from hybrid.files import grammar_text
from hybrid.json_schema import in_xgrammar
from hybrid.lark.source import LarkGrammar
from hybrid.representatives.follower import EngineFollower
from hybrid.values.follower import Follower
from hybrid.values.mask_time import limited

KIND = "drafts 1"
"""The kind of files, with the version of the keys."""

MOST_FILE_BYTES, MOST_KEY_BYTES = 1 << 30, 256

RECENT = 6
"""Most earlier tokens in a key."""

MOST_DRAFT = 256
"""Most tokens of a proposal."""

DRAFT_SECONDS = 0.05
"""Most time of a draft. Known tokens take microseconds; only very ambiguous grammars take longer."""

FORCED_BYTES = 64
"""How much forced text is used: enough for its first token."""

FORCED_FLAG = 1 << 60
"""A flag next to three hashes of 20 bits in the data of a configuration: text is forced there."""

DESCRIBED_BYTES = 120
"""Size of the data of a configuration in a dictionary of the session."""


_keys: weakref.WeakKeyDictionary[CompiledGrammar, str] = weakref.WeakKeyDictionary()


class DraftModel:
    """Counts the tokens of one compiled grammar's texts, and makes drafts from the counts.

    Args:
        compiled_grammar: the grammar of the sequences.
        threshold: drafts stop before their estimated probability falls below this.
        most_bytes: bound of the counts, 65,536 or more. A text takes about 64 bytes for each token and each
            of eight keys.
        encode: the model's tokenizer, for forced text: a function from text to ids, without ids that mark the
            beginning or the end. None takes the longest token that fits.

    Raises:
        HybridError: `compiled_grammar` is not a compiled grammar.
        ArgumentError: another argument has a wrong type or is out of range.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        threshold: float = 0.1,
        most_bytes: int = 16 << 20,
        encode: Encode | None = None,
    ) -> None:
        given: Any = compiled_grammar
        least: Any = threshold
        if not isinstance(given, CompiledGrammar):
            raise HybridError(
                "compiled_grammar must be what hybrid.GrammarCompiler returns, but is of type "
                f"{type(given).__name__}"
            )
        if isinstance(least, bool) or not isinstance(least, (int, float)) or not 0 <= least <= 1:
            raise ArgumentError(f"threshold must be a number from 0 to 1, but is {shown(least)}")
        if encode is not None and not callable(encode):
            raise ArgumentError(
                f"encode must be a function from text to ids, or None, but is {shown(encode)}"
            )
        slots = integer_from(FIRST_SLOTS * SLOT_BYTES, most_bytes, "most_bytes") // SLOT_BYTES
        self._compiled = compiled_grammar
        self._vocabulary = compiled_grammar.vocabulary
        self._threshold = float(threshold)
        self._counts = Counts(1 << (slots.bit_length() - 1))
        self._forced = Forced(self._vocabulary, self._vocabulary.stop_token_ids, encode)
        self._guide = _Guide(self._vocabulary.tokens, self._forced)
        most = compiled_grammar.mask_seconds
        self._seconds = DRAFT_SECONDS if most is None else min(most, DRAFT_SECONDS)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a DraftModel cannot be copied or pickled: threads may share one; make a new one for a compiled "
            "grammar, and add the counts with merge, or with save and load"
        )

    @property
    def compiled_grammar(self) -> CompiledGrammar:
        """The grammar of the sequences."""
        return self._compiled

    @property
    def memory_size_bytes(self) -> int:
        """Bytes of the counts."""
        return int(self._counts.nbytes)

    # ---------------------------------------------------------------- learning

    def learn(self, matcher: GrammarMatcher, n_tokens: int = 1) -> None:
        """Count the last tokens of a sequence. Call it once for each token that was chosen.

        Args:
            matcher: a matcher that has read the tokens. Steps that were text are ignored.
            n_tokens: how many of its last steps are new. A number that is too large means all.

        Raises:
            ArgumentError: the matcher has another grammar, or `n_tokens` is below 0.
        """
        new = n_tokens
        if new.__class__ is not int or new < 0:
            new = integer_from(0, new, "n_tokens")
        own = self._own(matcher)
        if own is None:
            return
        follower = _followed(own)
        if isinstance(follower, ClassifierFollower):
            session = follower.session
            begin = follower.first_known if follower.is_current(session) else follower.n_steps
            chains.learn(self._counts, follower, new, begin, session.tops, self._guide, self._seconds)
            return
        if not isinstance(follower, EngineFollower):
            return
        read = follower.last_read(new + RECENT)
        if new and own.is_terminated() and not follower.ends_without_stop:
            read.append(own.stop_token_ids[0])  # it is unknown which one it was
        for at in range(max(0, len(read) - new), len(read)):
            self._counts.learn(read[max(0, at - RECENT) : at], 0, read[at])

    def merge(self, other: Any) -> None:
        """Add the counts of another `DraftModel` of the same grammar.

        Raises:
            ArgumentError: `other` is not such a model.
        """
        if not isinstance(other, DraftModel) or other._key != self._key:
            raise ArgumentError(f"other must be a draft model of the same grammar, but is {shown(other)}")
        self._counts.merge(other._counts.copied())

    # ---------------------------------------------------------------- proposing

    def propose(self, matcher: GrammarMatcher, most: int = 8) -> list[int]:
        """Propose likely next tokens, one after the other. The matcher does not move.

        Args:
            matcher: a matcher of this grammar. There are no drafts while the prefix of a healed prompt is
                incomplete.
            most: the maximum number of tokens to propose, up to 256.

        Returns:
            Ids, each allowed after those before it; an empty list if nothing is likely enough. A stop token
            can only be the last one.

        Raises:
            ArgumentError: the matcher has another grammar, or `most` is out of range.
        """
        if most.__class__ is not int or not 0 <= most <= MOST_DRAFT:
            most = integer_from(0, most, "most", most=MOST_DRAFT)
        own = self._own(matcher)
        if own is None or not most:
            return []
        follower = _followed(own)
        if not isinstance(follower, ClassifierFollower) or follower.ends_without_stop:
            if own.is_terminated():
                return []
            follower = _followed(own)  # another one may have answered
        if isinstance(follower, EngineFollower):
            return self._slow_chain(own.fork(), follower, most)
        if not isinstance(follower, ClassifierFollower) or follower.ended:
            return []
        if not follower.is_current(follower.session):
            try:
                follower.catch_up()
            except BudgetExceeded:
                return []
        tops, least = follower.session.tops, self._threshold
        return list(chains.chain(self._counts, follower, tops, self._guide, most, least, self._seconds))

    def _slow_chain(self, twin: GrammarMatcher, follower: EngineFollower, most: int) -> list[int]:
        """Make a chain that a copy of the matcher reads; `follower` is that of the matcher itself."""
        deadline = Deadline(self._seconds)
        recent, forced = follower.last_read(RECENT), follower.forced_bytes()[:FORCED_BYTES]
        found: list[int] = []
        together = 1.0
        while len(found) < most and not twin.is_terminated() and not deadline.is_over:
            prior = self._forced.first_after(recent[-2:], forced)
            for token, share in self._counts.guesses(recent, 0, *prior)[:3]:
                if together * share < self._threshold:
                    return found
                try:
                    if twin.accept_token(token):
                        break
                except BudgetExceeded:
                    continue
            else:
                return found
            together *= share
            found.append(token)
            recent = [*recent, token][-RECENT:]
            read = self._vocabulary.tokens[token]
            forced = forced[len(read) :] if forced.startswith(read) else b""
        return found

    def _own(self, matcher: Any) -> GrammarMatcher | None:
        """The matcher of this grammar; None if the grammar has not started yet."""
        if matcher.__class__ is GrammarMatcher and matcher._compiled is self._compiled:
            return matcher  # the usual case
        if not isinstance(matcher, GrammarMatcher) or not self.is_of(matcher.compiled_grammar):
            raise ArgumentError(
                f"matcher must be one of the draft model's grammar and vocabulary, but is {shown(matcher)}"
            )
        return None if matcher._unspelled else matcher

    def is_of(self, compiled_grammar: CompiledGrammar) -> bool:
        """Whether the counts belong to this grammar: the same text and the same vocabulary."""
        return compiled_grammar is self._compiled or grammar_key(compiled_grammar) == self._key

    # ---------------------------------------------------------------- files

    @property
    def _key(self) -> str:
        return grammar_key(self._compiled)

    @property
    def _file_key(self) -> NDArray[np.uint8]:
        """What a file must say about its counts: the version of their keys, and the grammar."""
        return np.frombuffer(f"{KIND} {self._key}".encode(), np.uint8)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file. The write is atomic.

        Raises:
            OSError: the file cannot be written.
            ArtifactError: `path` is not a path.
        """
        target = path_of(path, "path", ArtifactError)
        write_arrays(target, {"slots": self._counts.copied(), "key": self._file_key})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add the counts of a file that `save` wrote.

        Raises:
            ArtifactError: the file is missing or damaged, or belongs to another grammar, vocabulary or
                version.
        """
        source = path_of(path, "path", ArtifactError)
        try:
            most = min(os.path.getsize(source), MOST_FILE_BYTES)  # the arrays are not compressed
            found = read_arrays(source, {"slots": most, "key": MOST_KEY_BYTES})
            if not np.array_equal(found["key"], self._file_key):
                raise Unusable("it has the counts of something else")
        except (OSError, Unusable) as error:
            raise ArtifactError(
                f"the file of draft counts cannot be read ({error}); it must come from the same "
                "grammar and vocabulary and the same version; if it does not, start with new counts"
            ) from error
        slots = found["slots"]
        problem = check_slots(slots, self._vocabulary.size)
        if problem:
            raise ArtifactError(f"the file of draft counts cannot be used: {problem}; start with new counts")
        self._counts.merge(slots)


class _Guide:
    """The questions of `hybrid.drafts.chains` about a sequence. It holds the classifier's lock while it
    answers, until the deadline of the draft."""

    __slots__ = ("_forced", "_tokens")

    def __init__(self, tokens: Sequence[bytes], forced: Forced) -> None:
        self._tokens, self._forced = tokens, forced

    def top(self, follower: ClassifierFollower, configuration: int, deadline: Deadline) -> int:
        """Return three hashes of the top of a configuration's stacks, and whether text is forced there. The
        result is cached."""
        session, found = follower.session, 0
        with follower.classifier.lock:
            for depth in (3, 2, 1):
                found = found << 20 | session.store.top_hash(configuration, depth) & 0xFFFFF
            try:
                with limited(session.store.account, deadline.left):
                    if follower.classifier.forced_byte(session, configuration) != NO_BYTE:
                        found |= FORCED_FLAG
            except BudgetExceeded:
                pass
            session.left -= DESCRIBED_BYTES
        if session.left > 0 and not deadline.is_over:
            session.tops[configuration] = found
        return found

    def step(self, follower: ClassifierFollower, configuration: int, token: int, deadline: Deadline) -> int:
        """Return the configuration after a token, 0 if it is not accepted, or -1 if it ends the sequence."""
        session = follower.session
        with follower.classifier.lock:
            if not follower.is_current(session):
                return 0
            try:
                without_stop = follower.ends_without_stop
                if token in follower.stops:
                    return -1 if not without_stop and session.store.is_whole(configuration) else 0
                if not self._tokens[token]:
                    return 0
                with limited(session.store.account, deadline.left):
                    after = follower.classifier.step(session, configuration, token)
                    return -1 if without_stop and after and session.store.is_whole(after) else after
            except (BudgetExceeded, ReadBothWays):
                return 0

    def forced(
        self, follower: ClassifierFollower, configuration: int, last: int, before: int, deadline: Deadline
    ) -> tuple[int, float]:
        """Return the token with which forced text most likely begins after two tokens (-1: no token), and its
        share."""
        session = follower.session
        text = session.forced.get(configuration)
        if text is None:
            with follower.classifier.lock:
                try:
                    text = forced_text(follower.classifier, session, configuration, FORCED_BYTES, deadline)
                except BudgetExceeded:
                    text = b""
                session.left -= DESCRIBED_BYTES + len(text)
            if session.left > 0 and not deadline.is_over:
                session.forced[configuration] = text
        return self._forced.first_after((before, last), text)


def _followed(matcher: GrammarMatcher) -> Follower:
    """Return the follower of the grammar, without the one that keeps a limit of tokens."""
    follower = matcher._follower
    return follower.inner if isinstance(follower, LimitedFollower) else follower


def grammar_key(compiled: CompiledGrammar) -> str:
    """Return a key for counts: equal for the same grammar over the same vocabulary."""
    known = _keys.get(compiled)
    if known is None:
        grammar = compiled.grammar
        if isinstance(grammar, LarkGrammar):
            text = f"lark {grammar.start}\n{grammar.text}".encode("utf-8", "surrogatepass")
        else:
            text = grammar_text.written(in_xgrammar(grammar))
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        known = _keys[compiled] = f"{compiled.vocabulary.fingerprint} {digest}"
    return known
