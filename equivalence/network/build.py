"""The grammar network: a byte automaton for each rule, with calls, in a normal form.

What: a recursive transition network that reads exactly what XGrammar reads, down to UTF-8. It is made from
the results of XGrammar's own parsers and converters, through `Grammar.serialize_json`; nothing is parsed
here.
When: built once for each grammar, in about a millisecond for a typical JSON schema; independent of the
vocabulary.
Limits: only byte-level constructs; `equivalence.network.token_ids` turns token ids into such. Constructs
that act on ids, or on counts outside the grammar, raise `UnsupportedGrammar` with their name;
`max_states` bounds the size.

Each step to the normal form keeps the set of stacks that can read a byte (docs/theory.md):

1. a nullable rule becomes non-empty and its calls optional;
2. left recursion, direct, indirect or hidden behind nullable rules, becomes a loop at the rule's end;
3. a tail call of a rule to itself becomes a loop; other tail calls leave no return state;
4. small rules without calls are copied into their callers;
5. each rule is determinised, then all states that do the same (bisimilar ones) are merged, whatever their
   rules;
6. a repeat {m,n} with a bound above 3 is one *counted rule* with a true counter; smaller repeats are
   written out.

Lookahead assertions are ignored, as `accept_token` does.

Rejected: making the automaton of a rule when a text first enters it. For 179 JSON schemas, the network takes
a quarter of the time to the first mask. That mask enters 4% of the network's states, the first document 78%
(both weighted by time). So after one document, at most 5% of the time would have been saved, minus the cost
of coming back for each rule; and steps 1, 2 and 5 need whole cycles of rules, or all rules. An engine
compiles while it decodes: work that is postponed to the first step that reads a value would delay all its
sequences.

Rejected: keeping the automata of rules by content for later grammars. Of 600 JSON schemas in random order,
44% of the text of their rules had occurred in an earlier one, with all rules that they call (36% in the
largest sixth of the schemas). Such rules must still be merged with all others, so less than a tenth of the
time could be saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline, Stop
from equivalence.errors import UnsupportedGrammar
from equivalence.network import dialect, edge_types, serial
from equivalence.network.automata import reachable
from equivalence.network.contexts import contexts_and_below
from equivalence.network.counted_automata import limits_of, refuse_counted_automata
from equivalence.network.foreign import ForeignRule, foreign_rule
from equivalence.network.grammar_reader import ParsedGrammar, PlainRules, read_grammar
from equivalence.network.left_recursion import left_recursive, remove_left_recursion
from equivalence.network.pipeline import NetworkPipeline
from equivalence.network.token_ids import escaped_edges

MOST_KEPT, MOST_KEPT_STATES = 4, 25_000
"""At most four tables are kept for later grammars, if the largest grammars that used them had at most so many
states together. A state takes 1.3 to 2.7 KB, so all of them take at most about 60 MB (0.5 MB for the median
JSON schema). With new tables, the first mask of a schema of 12,471 states takes 38 ms instead of 24: the
system clears each page of new memory."""

_waiting: list[NetworkPipeline] = []
"""Tables that are not in use."""

PHASE = "the grammar's network"
"""The name of this computation in errors."""

Integers = NDArray[np.int64]


_BYTES_OF = attrgetter("nbytes")


class Below(NamedTuple):
    """What may lie below each state of a network.

    Attributes:
        contexts: int64[C], the symbols that may be on top of a stack.
        context_starts: int64[C + 1], where the below sets of each context begin in `context_below`.
        context_below: int64, the below sets of each context.
        below_starts: int64[B + 1], where the symbols of each below set begin in `below_symbols`.
        below_symbols: int64, the symbols of each below set.
        below_of_symbol: int64, the below set below each of `below_symbols`.
        below_bottom: bool[B], the sets that may be at the bottom of the stack.
    """

    contexts: Integers
    context_starts: Integers
    context_below: Integers
    below_starts: Integers
    below_symbols: Integers
    below_of_symbol: Integers
    below_bottom: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(map(_BYTES_OF, self))


class Network:
    """The merged network and what may lie below each of its states.

    A *symbol* is what lies on the stack: a state to return to, or -1 - k, the frame of counted class k. A
    *below set* contains the symbols that may lie directly below a rule's states.

    The first call of `below` computes what may lie below each state; masks before there are classes do not
    need it. Two threads may compute it twice, with equal results.

    Attributes:
        automaton: (final uint8[n], edge starts int64[n + 1], edges int64[k, 3], call starts int64[n + 1],
            calls int64[k, 2], counted int64[c, 4]) of the n states. An edge row is (first byte, last byte,
            target). A call row is (callee, return): callee >= 0 is a first state, -1 - k is counted class
            k; return -1 marks a tail call. A counted row is (first state of the unit, least, most, and most
            again, but -1 if one token cannot read that many units). If there are counted automata, the
            arrays of `counted_automata.limits_of` follow.
        start: the start state.
        start_final: whether the empty text is complete.
    """

    def __init__(self, automaton: tuple[Any, ...], start: int, start_final: bool, max_states: int) -> None:
        self.automaton = automaton
        self.start = start
        self.start_final = start_final
        self._max_states = max_states
        self._below: Below | None = None
        self._counted: tuple[Below | None, int] = None, 0

    def below(self, deadline: Deadline | None = None) -> Below:
        """What may lie below each state. The first call computes it, and it is kept.

        Raises:
            BudgetExceeded: the sets are larger than the bound on states allows, or the deadline has passed.
            UnsupportedGrammar: it has counted automata.
        """
        below = self._below
        if below is None:
            with (deadline or Deadline()).stopping(PHASE) as stop:
                below = self._below = below_of(self.automaton, self.start, self._max_states, stop)
        return below

    @property
    def n_states(self) -> int:
        """Number of states after merging."""
        return int(self.automaton[0].size)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; counted once, and again when `below` has been computed."""
        below, size = self._counted
        if not size or below is not self._below:
            below = self._below
            arrays = (*self.automaton, *(below or ()))
            size = sum(map(_BYTES_OF, arrays))
            self._counted = below, size
        return size


def below_of(automaton: tuple[Any, ...], start: int, max_states: int, stop: Stop) -> Below:
    """What may lie below each state of a network.

    Args:
        automaton, start: as in `Network`.
        max_states: bound on the states of automata, and thereby on the size of these sets.
        stop: says when to stop.

    Raises:
        BudgetExceeded: the sets are too large for `max_states`, or the deadline has passed.
        UnsupportedGrammar: it has counted automata.
    """
    refuse_counted_automata(automaton)
    return Below(*contexts_and_below(automaton, start, max_states, stop))


def build_network(
    grammar: Any, *, token_bytes: int, max_states: int = 200_000, deadline: Deadline | None = None
) -> Network:
    """Build the network of an `xgrammar.Grammar`, or of its serialised form as parsed by `json.loads`.

    Args:
        grammar: the grammar; lookahead assertions, captures and temperatures are ignored.
        token_bytes: bytes of the longest token: one token cannot distinguish larger bounds of a repeat.
        max_states: bound on the states of every intermediate automaton.
        deadline: when to give up.

    Raises:
        UnsupportedGrammar: a byte-level network cannot keep a construct exact; the message names it.
        BudgetExceeded: more than `max_states` states, or the deadline has passed.
        GrammarError: a serialisation of another version.
    """
    deadline = deadline or Deadline()
    read = read_grammar(grammar)
    # grammars with automata of their own are not XGrammar's
    if dialect.TAKES_PARTS and read.edges is None and serial.REPEAT in read.types:
        dialect.refuse_repeats_in_repeats(read.data.tolist(), read.starts.tolist(), read.rules)
    with deadline.stopping(PHASE) as stop:
        return _build(read, token_bytes, max_states, deadline, stop)


def _build(read: ParsedGrammar, token_bytes: int, max_states: int, deadline: Deadline, stop: Stop) -> Network:
    root, bodies = read.root, read.bodies
    data, starts = read.data, read.starts
    n_rules = len(bodies)
    edges: Any = read.edges
    n_states = 2 * n_rules
    if edges is None and not read.types.isdisjoint(serial.FOREIGN_TYPES):
        is_foreign = np.isin(data[starts[bodies]], serial.FOREIGN_TYPES)
        used, _ = reachable(data, starts, bodies, root)
        foreign = {}
        for rule in np.flatnonzero(is_foreign & (used != 0)).tolist():
            foreign[rule] = foreign_rule(read, rule, deadline)
            deadline.check(PHASE)  # XGrammar compiles each of them, and cannot be interrupted
        data, starts, bodies, edges, n_states = _add_foreign(foreign, data, starts, bodies)
        if read.is_escaped:
            edges, n_states = escaped_edges(edges, n_states)
        n_rules = len(bodies)
    pipeline = _pipeline()
    rules = read.rules
    is_plain = isinstance(rules, PlainRules)
    is_left = pipeline.begin(data, starts, bodies, root, max_states, edges, n_states, stop, merge=is_plain)
    if not is_plain:
        _refuse_rule_features(rules, read.features, pipeline.is_reached()[: len(rules)])
    if is_left:
        pairs, edges, rule_of_state, begins, ends, nullable = pipeline.left_recursive()
        cyclic = left_recursive(pairs, n_rules, stop)
        edges, n_states = remove_left_recursion(
            cyclic, edges, rule_of_state, begins, ends, nullable, max_states, stop
        )
        pipeline.without_left_recursion(edges, n_states, begins, ends)
    automaton, start, is_empty = pipeline.merge(token_bytes)
    if read.automata:
        rules, classes = pipeline.counted_rules()
        automaton = limits_of(automaton, rules, classes, read.automata)
    network = Network(automaton, start, is_empty, max_states)
    pipeline.forget()
    held = sum(one.largest for one in _waiting) + pipeline.largest
    if held <= MOST_KEPT_STATES and len(_waiting) < MOST_KEPT:
        _waiting.append(pipeline)  # only now: after an error, the tables must not be used again
    return network


def _pipeline() -> NetworkPipeline:
    """The tables of an earlier grammar, or new ones."""
    try:
        return _waiting.pop()
    except IndexError:
        return NetworkPipeline()


def _add_foreign(
    foreign: dict[int, ForeignRule], data: Integers, starts: Integers, bodies: Integers
) -> tuple[Integers, Integers, Integers, Integers, int]:
    """Number XGrammar's automata and their helper rules after the grammar's own rules."""
    numbers: dict[int, list[int]] = {}
    n_rules = len(bodies)
    for rule, entry in foreign.items():
        extra = len(entry.automata) - 1 + len(entry.repeats)
        numbers[rule] = [rule, *range(n_rules, n_rules + extra)]
        n_rules += extra
    new_bodies = np.concatenate([bodies, np.full(n_rules - len(bodies), -1, np.int64)])
    new_data: list[int] = []
    new_starts: list[int] = []
    n_states = 2 * n_rules
    tables, owners, offsets = [], [], []
    for rule, entry in foreign.items():
        number = numbers[rule]
        for own, (rows, width) in zip(number, entry.automata, strict=False):
            if len(number) > 1:
                called = np.flatnonzero((rows[:, 1] == edge_types.CALL) & (rows[:, 2] < 0))
                if len(called):
                    rows = rows.copy()
                    rows[called, 2] = np.array(number, np.int64)[-1 - rows[called, 2]]
            tables.append(rows)
            owners.append(2 * own)
            offsets.append(n_states - 2)
            n_states += width - 2
            new_bodies[own] = -1
        for own, (unit, least, most) in zip(number[len(entry.automata) :], entry.repeats, strict=True):
            new_bodies[own] = len(starts) + len(new_starts)
            new_starts.append(len(data) + len(new_data))
            new_data += [serial.REPEAT, 3, number[-1 - unit] if unit < 0 else unit, least, most]
    edges = np.concatenate(tables) if tables else np.zeros((0, 5), np.int64)
    # states 0 and 1 of an automaton are those of its rule; all others are numbered after those of all rules
    lengths = np.array(list(map(len, tables)), np.int64)
    own_states, inner_states = (
        np.repeat(np.array(states, np.int64), lengths) for states in (owners, offsets)
    )
    for column in (0, 4):
        edges[:, column] += np.where(edges[:, column] >= 2, inner_states, own_states)
    data = np.concatenate([data, np.array(new_data, np.int64)])
    starts = np.concatenate([starts, np.array(new_starts, np.int64)])
    return data, starts, new_bodies, edges, n_states


def _refuse_rule_features(
    rules: Sequence[Any], serialized: dict[str, Any], reachable: NDArray[np.uint8]
) -> None:
    for rule, is_reached in zip(rules, reachable.tolist(), strict=True):
        if not is_reached:
            continue
        feature = (
            "limited by max_tokens"
            if rule[serial.MAX_TOKENS] >= 0
            else "limited by max_chars"
            if rule[serial.MAX_CHARS] >= 0
            else "lazy"
            if rule[serial.IS_LAZY]
            else ""
        )
        if feature:
            raise UnsupportedGrammar(
                f"rule {rule[serial.NAME]!r} is {feature}, so the parser's stack alone does not decide which "
                "tokens are allowed; remove this, or let XGrammar run the grammar"
            )
    if serialized.get(serial.MARKERS):
        raise UnsupportedGrammar(
            "the grammar has suffix or stop markers of captures, so the parser's stack alone does not decide "
            "which tokens are allowed; remove them, or let XGrammar run the grammar"
        )
