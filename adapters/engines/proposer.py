"""Drafts for the requests of an engine, by the ids that each has generated so far.

What: `Proposer` follows requests by name and proposes tokens for each, like the n-gram proposers of engines:
``propose(request, grammar, ids)``. The ids of the next call show which draft tokens the engine has kept.
When: in an engine's hook for speculative decoding that accepts proposals without a distribution.
Limits: one thread at a time for each request. Above `MOST_REQUESTS`, the least recently used requests are
dropped; if they are used again, they are read from the start. Draft models are dropped in the same way, with
everything that they have learned.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from equivalence import forks
from equivalence.arguments import integer_from
from hybrid import CompiledGrammar, GrammarMatcher
from hybrid.drafts import DraftModel
from hybrid.drafts.model import MOST_DRAFT, grammar_key

MOST_REQUESTS = 4096


class _Request:
    """A request: its matcher, and the ids that the matcher has read."""

    def __init__(self, grammar: CompiledGrammar, stops: Sequence[int] | None) -> None:
        self.grammar, self.stops = grammar, stops
        self.matcher = GrammarMatcher(grammar, override_stop_tokens=stops)
        self.ids: list[int] = []

    def follow(self, ids: Sequence[int], drafts: DraftModel) -> bool:
        """Read these ids and learn from the new ones; return whether the grammar allows them."""
        common = len(self.ids)
        if list(ids[:common]) != self.ids:  # rare; comparing id by id takes a hundred times as long
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
    """Proposes tokens for requests, each with a grammar. Requests with equal grammars share one draft model.

    Args:
        most: the maximum number of tokens in a draft, up to 256.
        most_models: the maximum number of draft models that are kept; each takes at most ``most_bytes``, by
            default 16 MiB.
        options: options of each `hybrid.drafts.DraftModel`: ``threshold``, ``most_bytes``, ``encode``.

    Raises:
        ArgumentError: a number is out of range. Wrong `options` raise errors in the first call.
    """

    key_of: Callable[[CompiledGrammar], Hashable] = staticmethod(grammar_key)

    def __init__(self, most: int = 8, *, most_models: int = 64, **options: Any) -> None:
        self._most, self._options = integer_from(0, most, "most", most=MOST_DRAFT), options
        self._most_models = integer_from(1, most_models, "most_models")
        self._lock = forks.registered(threading.Lock(), forks.Order.BRIEF)
        self._requests: OrderedDict[Hashable, _Request] = OrderedDict()
        self._models: OrderedDict[Hashable, DraftModel] = OrderedDict()

    def model(self, grammar: CompiledGrammar) -> DraftModel:
        """Return the draft model of a grammar, for example to save, load or merge it."""
        key = self.key_of(grammar)
        with self._lock:
            found = self._models.get(key)
            if found is not None:
                self._models.move_to_end(key)
                return found
        made = DraftModel(grammar, **self._options)  # without the lock
        with self._lock:
            found = self._models.setdefault(key, made)
            self._models.move_to_end(key)
            while len(self._models) > self._most_models:
                self._models.popitem(last=False)
            return found

    def propose(
        self, request: Hashable, grammar: CompiledGrammar, ids: Sequence[int], most: int | None = None,
        stops: Sequence[int] | None = None,
    ) -> list[int]:  # fmt: skip
        """Return tokens that are likely to follow, each allowed after those before it.

        Args:
            request: the name of the request.
            grammar: its grammar.
            ids: all ids that it has generated, without the prompt. There may be fewer than in the last call.
            most: the maximum number of tokens to propose; None is the proposer's setting.
            stops: ids that end the request, in place of the vocabulary's.

        Returns:
            The tokens; an empty list if the grammar does not allow `ids`.
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
        """Drop a request. What was learned from it stays."""
        with self._lock:
            self._requests.pop(request, None)
