"""The completions of one compiled grammar, by the ids that end a sequence.

What: `Completions` builds the network of a grammar again, with all counts, and makes a `Completion` of it
for each set of stop ids that is needed.
When: kept by a `hybrid.CompiledGrammar`; nothing is built before first use.
Limits: grammars that bytes and stacks do not decide are refused by name. `Budget` bounds the states and the
seconds.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from equivalence import BudgetExceeded, HybridError, UnsupportedGrammar, Vocabulary, forks
from equivalence.classes.classes import network_within
from equivalence.deadline import Deadline
from equivalence.network import Network
from equivalence.network.features import features_of
from equivalence.network.grammar_reader import read_grammar
from equivalence.network.optimised import optimised_by
from hybrid.completion.completion import Completion
from hybrid.completion.costed_configurations import tables_of
from hybrid.completion.spelling import Spelling, spelling_of
from hybrid.guard import Guard
from hybrid.lark import LarkGrammar
from hybrid.values.budget import Budget

KEPT = 4
"""Most sets of stop ids for which a completion is cached."""


class Completions:
    """Makes and caches completions; thread-safe. If two threads make the same one at once, one of them is
    kept.

    Args:
        grammar: XGrammar's object, or what `equivalence.network` reads; a Lark grammar is refused.
        vocabulary: the vocabulary.
        budget: bounds of building; a plan takes at most `Budget.mask_seconds`, too.
    """

    def __init__(self, grammar: Any, vocabulary: Vocabulary, budget: Budget = Budget()) -> None:
        self._grammar, self._vocabulary, self._budget = grammar, vocabulary, budget
        self._network: Network | None = None
        self._made: dict[tuple[int, ...], Completion] = {}
        self._refusal: tuple[type[HybridError], str] | None = None
        self._lock = forks.registered(threading.Lock(), forks.Order.BRIEF)

    def of(self, stops: tuple[int, ...]) -> Completion:
        """The completion for some stop ids. Stop ids without text spell nothing, so they make no difference.

        Raises:
            UnsupportedGrammar: bytes and stacks do not decide the grammar, or it is a Lark grammar.
            BudgetExceeded: building it takes more than the budget. An error is raised again by later calls,
                because a server asks for each request.
        """
        tokens = self._vocabulary.tokens
        stops = tuple(sorted(stop for stop in stops if tokens[stop]))
        found = self._made.get(stops)
        if found is not None:
            return found
        if self._refusal is not None:
            kind, message = self._refusal
            raise kind(message)
        try:
            made = self._build(spelling_of(self._vocabulary, stops))  # without holding the lock
        except (UnsupportedGrammar, BudgetExceeded) as error:
            self._refusal = type(error), str(error)
            raise
        with self._lock:
            while len(self._made) >= KEPT:
                del self._made[next(iter(self._made))]
            return self._made.setdefault(stops, made)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        size = 0 if self._network is None else self._network.nbytes
        return size + sum(one.nbytes for one in list(self._made.values()))

    def _build(self, spelling: Spelling) -> Completion:
        deadline = Deadline(self._budget.seconds)
        if self._network is None:
            self._network = self._new_network(deadline)
        tables = tables_of(self._network, spelling, deadline)
        seconds = [one for one in (self._budget.seconds, self._budget.mask_seconds) if one is not None]
        return Completion(tables, self._vocabulary, spelling, min(seconds, default=None))

    def _new_network(self, deadline: Deadline) -> Network:
        if isinstance(self._grammar, LarkGrammar):
            raise UnsupportedGrammar(
                "token limits are not supported for Lark grammars; use masks without a token limit, or a "
                "grammar in one of XGrammar's notations (compile_grammar, compile_json_schema and others)"
            )
        # the costs of counted automata take milliseconds instead of seconds
        read = read_grammar(self._grammar, counted=True)
        features = features_of(read)
        if features.beyond_stacks:
            raise UnsupportedGrammar(
                f"token limits are not supported for this grammar, because it uses {features}, so "
                "the allowed tokens depend on more than the text's bytes and the parser's stack; use masks "
                "without a token limit"
            )
        budget = self._budget
        build = partial(
            network_within, read, self._vocabulary, "displacement", budget.capacity, budget.states, deadline
        )
        return optimised_by(Guard(budget).optimise(deadline), build)
