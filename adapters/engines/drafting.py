"""Drafts for the requests of an engine, by the ids that each has generated so far.

What: `Proposer` follows requests by name and proposes tokens for each, as the n-gram proposers of engines do:
``propose(request, grammar, ids)``. What an engine keeps of a draft, it tells with the next call's ids.
When: behind the hook of an engine's speculative decoding that takes proposals without a distribution.
Limits: one thread at a time for a request. Requests that are not asked for any more are forgotten from
`MOST_REQUESTS` on, the one that was not asked for longest first; asked for again, they are read from the
start. Draft models of grammars are forgotten in the same way, with what they have learned.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from equivalence import forking
from equivalence.arguments import integer_from
from hybrid import CompiledGrammar, GrammarMatcher
from hybrid.drafts import DraftModel
from hybrid.drafts.model import MOST_DRAFT, grammar_key

MOST_REQUESTS = 4096


class _Request:
    """A request: its matcher, and the ids that it has read."""

    def __init__(self, grammar: CompiledGrammar, stops: Sequence[int] | None) -> None:
        self.grammar, self.stops = grammar, stops
        self.matcher = GrammarMatcher(grammar, override_stop_tokens=stops)
        self.ids: list[int] = []

    def follow(self, ids: Sequence[int], drafts: DraftModel) -> bool:
        """Go where these ids lead, and learn what is new; whether they are text of the grammar."""
        common = len(self.ids)
        if list(ids[:common]) != self.ids:  # rare; to compare id by id takes a hundred times as long
            pairs = zip(ids, self.ids, strict=False)
            common = next((at for at, (one, other) in enumerate(pairs) if one != other), len(ids))
            self.matcher.rollback(len(self.ids) - common)
            del self.ids[common:]
        for token in ids[common:]:
            if self.matcher.is_terminated() or not self.matcher.accept_token(token):
                return False
            self.ids.append(token)
            drafts.learn(self.matcher)
        return True


class Proposer:
    """Proposes tokens for requests, each with a grammar; requests of equal grammars share one draft model.

    Args:
        most: tokens of a draft, at most 256.
        most_models: draft models that are kept; each takes ``most_bytes`` at most, 16 MiB unless told
            otherwise.
        options: of each `hybrid.drafts.DraftModel`: ``threshold``, ``most_bytes``, ``encode``.

    Raises:
        ArgumentError: a number out of its range. Of `options` the first call raises.
    """

    def __init__(self, most: int = 8, *, most_models: int = 64, **options: Any) -> None:
        self._most, self._options = integer_from(0, most, "most", most=MOST_DRAFT), options
        self._most_models = integer_from(1, most_models, "most_models")
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)
        self._requests: OrderedDict[Hashable, _Request] = OrderedDict()
        self._models: OrderedDict[str, DraftModel] = OrderedDict()

    def model(self, grammar: CompiledGrammar) -> DraftModel:
        """The draft model of a grammar, to be saved, loaded or merged."""
        key = grammar_key(grammar)
        with self._lock:
            found = self._models.get(key)
            if found is not None:
                self._models.move_to_end(key)
                return found
        made = DraftModel(grammar, **self._options)  # no lock is held while it is made
        with self._lock:
            found = self._models.setdefault(key, made)
            self._models.move_to_end(key)
            while len(self._models) > self._most_models:
                self._models.popitem(last=False)
            return found

    def propose(
        self,
        request: Hashable,
        grammar: CompiledGrammar,
        ids: Sequence[int],
        most: int | None = None,
        stops: Sequence[int] | None = None,
    ) -> list[int]:
        """Tokens that are likely to follow, each allowed after those before it.

        Args:
            request: its name.
            grammar: what it follows.
            ids: all that it has generated, without the prompt; they may go back.
            most: tokens; None: as the proposer was made.
            stops: ids that end it, in place of the vocabulary's.

        Returns:
            None at all where the ids are no text of the grammar.
        """
        drafts = self.model(grammar)
        with self._lock:
            known = self._requests.get(request)
            if known is None or known.grammar is not grammar or known.stops != stops:
                known = self._requests[request] = _Request(grammar, stops)
            self._requests.move_to_end(request)
            while len(self._requests) > MOST_REQUESTS:
                self._requests.popitem(last=False)
        if not known.follow(ids, drafts):
            return []
        return drafts.propose(known.matcher, self._most if most is None else most)

    def end(self, request: Hashable) -> None:
        """Forget a request; what was learned from it stays."""
        with self._lock:
            self._requests.pop(request, None)
