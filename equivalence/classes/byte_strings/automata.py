"""The very automata that XGrammar runs, with an upper bound of what may follow without a byte.

What: a grammar is compiled by XGrammar (over a few empty tokens, as its automata depend on no vocabulary) and
all of its automata are read back; `reach` says which states may come next silently, whatever the stack is.
When: once per grammar that needs classes of byte strings.
Limits: the serialised form repeats all automata once per rule; above `MAX_SERIALIZED_BYTES`, above
`MAX_STATES` states, or with an edge that is not known here there is no answer (None).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.classes.byte_strings.features import find_features, renumber_tokens
from equivalence.classes.byte_strings.silent import silent_reach
from equivalence.deadline import Deadline
from equivalence.network import serial
from equivalence.network.layouts import written
from equivalence.network.optimised import Wanted
from equivalence.network.read_back import Optimised, read_back

MAX_SERIALIZED_BYTES = 64_000_000
"""No answer above: writing 50 MB takes 3 s and 850 MiB."""

MAX_STATES = 30_000
"""No answer above: the table of what each state reaches has a bit for each pair."""

PHASE = "the classes of byte strings"
"""What errors call all of this."""


class Automata(NamedTuple):
    """Reading states of all automata of a grammar, R of them, numbered from 0.

    Attributes:
        starts: int64[R + 1], rows of each state.
        rows: int64[E, 3], (first byte, last byte, entry): entry numbers the state after the byte.
        reach: uint64[entries, W], for each entry the reading states that may come next, one bit each.
        contradicting: XGrammar's masks may contradict its `accept_token`, for a lazy rule of which several
            states may be alive at once, or for a budget of tokens over called rules.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    reach: NDArray[np.uint64]
    contradicting: bool


def read_automata(serialized: dict[str, Any], deadline: Deadline | None = None) -> Automata | None:
    """The automata that XGrammar makes of a serialised grammar; None where they are out of bounds.

    Silent steps are over-approximated without a stack: a rule's end leads to what follows *any* call of it.

    Raises:
        BudgetExceeded: it is too late.
    """
    deadline = deadline or Deadline()
    deadline.check(PHASE)
    found = _compile(serialized)
    deadline.check(PHASE)
    if found is None:
        return None
    grammar, rows, pointers, details = found
    n_states = len(pointers) - 1
    if n_states > MAX_STATES or (rows[:, 0] < serial.EDGE_EXCLUDED).any():
        return None
    if any(
        entry is None for entry in grammar[serial.AUTOMATA_OF_RULES]
    ):  # then a rule would run as it is written
        return None
    source = np.repeat(np.arange(n_states), np.diff(pointers))
    n_rules = len(grammar[serial.RULES])
    start_of = np.full(n_rules, -1, np.int64)
    silent: list[tuple[int, int]] = []
    done = n_states  # node done + r: rule r has ended somewhere
    budgeted = {info[0] for info in grammar[serial.MARKERS]}
    for number, entry in enumerate(grammar[serial.AUTOMATA_OF_RULES]):
        _, start, ends = entry[0][:3]
        start_of[number] = start
        silent += [(end, done + number) for end in ends]
        if number in budgeted:  # such a rule may be ended where its budget is spent
            silent += [(state, done + number) for state in _states_from(start, rows, pointers)]
    silent += [(int(start_of[r]), done + r) for r in grammar[serial.MAY_BE_EMPTY]]
    for edge_type in (serial.EDGE_EMPTY, serial.EDGE_RULE, serial.EDGE_REPEAT):
        chosen = rows[:, 0] == edge_type
        edges = zip(source[chosen].tolist(), rows[chosen, 1].tolist(), rows[chosen, 2].tolist(), strict=True)
        for begin, detail, target in edges:
            if edge_type == serial.EDGE_EMPTY:
                silent.append((begin, target))
                continue
            if edge_type == serial.EDGE_REPEAT:
                callee = details[detail]
                silent += [(begin, target), (done + callee, begin)]
            else:
                callee = detail
            silent += [(begin, int(start_of[callee])), (done + callee, target)]
    deadline.check(PHASE)
    reads = rows[:, 0] >= 0
    reading = np.unique(source[reads])
    number_of = np.full(n_states, -1, np.int64)
    number_of[reading] = np.arange(len(reading))
    entry_states, entry = np.unique(rows[reads, 2], return_inverse=True)
    byte_rows = np.stack([rows[reads, 0], rows[reads, 1], entry.reshape(-1)], axis=1).astype(np.int64)
    starts = np.zeros(len(reading) + 1, np.int64)
    np.cumsum(np.bincount(number_of[source[reads]], minlength=len(reading)), out=starts[1:])
    steps = np.array(silent, np.int64).reshape(-1, 2)
    with deadline.stopping(PHASE) as stop:
        reach = silent_reach(n_states + n_rules, steps, reading, entry_states, Account(stop))
    contradicting = _ambiguous_lazy(grammar, rows, pointers) or _budgets_over_calls(grammar, rows, pointers)
    return Automata(starts, byte_rows, reach, contradicting)


def _compile(serialized: dict[str, Any]) -> Optimised | None:
    """XGrammar's optimised grammar, over the ids that it names."""
    named = find_features(serialized).named
    small = {token_id: index for index, token_id in enumerate(named)}
    text = written(renumber_tokens(serialized, small.__getitem__))
    # ids beyond the vocabulary end the process
    return read_back(Wanted(text, len(named) + 2, MAX_SERIALIZED_BYTES))


def _ambiguous_lazy(grammar: dict[str, Any], rows: NDArray[np.int64], pointers: NDArray[np.int64]) -> bool:
    """Whether several states of a lazy rule may be alive at once: one that ends removes the others.

    XGrammar's masks look at one state at a time and miss that. Several are alive where the rule's automaton
    is not deterministic, and where different beginnings of the rule count as one: as the last part of the
    root (or of a rule that ends it, and so on), whose beginnings XGrammar does not tell apart.
    """
    lazy = {number for number, rule in enumerate(grammar[serial.RULES]) if rule[serial.IS_LAZY]}
    for number in lazy:
        for state in _states_from(grammar[serial.AUTOMATA_OF_RULES][number][0][1], rows, pointers):
            own = sorted(rows[pointers[state] : pointers[state + 1]].tolist())
            pairs = pairwise(own)
            if any(row[0] < 0 for row in own) or any(right[0] <= left[1] for left, right in pairs):
                return True
    ending = [grammar[serial.ROOT]]
    for rule in ending if lazy else []:
        if rule in lazy:
            return True
        _, start, ends = grammar[serial.AUTOMATA_OF_RULES][rule][0][:3]
        for state in _states_from(start, rows, pointers):
            for edge_type, callee, target in rows[pointers[state] : pointers[state + 1]].tolist():
                last = target in ends and pointers[target] == pointers[target + 1]
                if edge_type == serial.EDGE_RULE and last and callee not in ending:
                    ending.append(callee)
    return False


def _budgets_over_calls(
    grammar: dict[str, Any], rows: NDArray[np.int64], pointers: NDArray[np.int64]
) -> bool:
    """Whether a rule with max_tokens calls rules which read something.

    One text of a called rule may belong to several callers, some of whose budgets are exhausted.
    `accept_token` drops these in the middle of a token, XGrammar's masks only before it.
    """
    for number, rule in enumerate(grammar[serial.RULES]):
        if rule[serial.MAX_TOKENS] < 0:
            continue
        called = [number]
        for current in called:
            for state in _states_from(grammar[serial.AUTOMATA_OF_RULES][current][0][1], rows, pointers):
                for edge_type, callee, _ in rows[pointers[state] : pointers[state + 1]].tolist():
                    is_silent = edge_type in (serial.EDGE_EMPTY, serial.EDGE_RULE)
                    if edge_type == serial.EDGE_REPEAT or (current != number and not is_silent):
                        return True
                    if edge_type == serial.EDGE_RULE and callee not in called:
                        called.append(callee)
    return False


def _states_from(start: int, rows: NDArray[np.int64], pointers: NDArray[np.int64]) -> list[int]:
    seen, queue = {start}, [start]
    for state in queue:
        for target in rows[pointers[state] : pointers[state + 1], 2].tolist():
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return queue
