"""What a state may turn out to have read: the terminals up to the lexeme that contains the last character.

What: for every state, the set of sequences that the machine may emit from there on, depending on the text
after it or its end, up to and including the lexeme that contains the last character.
When: on the explored states, while unfinished lexemes and tails are still separate; before states are merged.
Limits: exact for the machine, including what it drops. If terminals are emitted before their lexeme ends, a
set contains what is left of them.

The last character is marked. The search follows the twins of states (`LexemeTransducer.mark`) until the
lexeme that contains this character is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator

from equivalence.arrays.closure import close_backwards
from equivalence.deadline import Deadline
from equivalence.lark.lexer.lexeme_transducer import LexemeTransducer, Terminals
from equivalence.lark.lexer.minimisation import Continuations, Transducer


def find_continuations(
    transducer: LexemeTransducer, machine: Transducer, max_states: int, deadline: Deadline
) -> list[Continuations]:
    """The set of each state that can be reached, sorted; () for the others.

    Raises:
        BudgetExceeded: more than `max_states` twins, or the time ran out.
    """
    live: list[bool] = ((machine.at_end >= 0) | (machine.step >= 0).any(axis=1)).tolist()
    after = [set(row) - {-1} for row in machine.step.tolist()]
    reached = [state == 0 for state in range(len(after))]
    close_backwards(reached, after)  # forwards
    transducer.max_states = len(transducer.places) + max_states
    twins = {state: transducer.mark(state) for state in range(1, len(after)) if reached[state]}
    found: dict[int, set[Terminals]] = {twin: set() for twin in twins.values()}
    before: dict[int, list[tuple[Terminals, int]]] = {}
    order = list(found)
    for twin in order:  # which grows on the way
        deadline.check("the lexer's continuations")
        simple = _simple(transducer, twin)
        if simple is not None:
            found[twin] = simple
            continue
        for terminals, target in _steps(transducer, twin, live, found[twin]):
            before.setdefault(target, []).append((terminals, twin))
            if target not in found:
                found[target] = set()
                order.append(target)
    pending = order
    while pending:
        target = pending.pop()
        deadline.check("the lexer's continuations")
        for terminals, twin in before.get(target, ()):
            more = {terminals + one for one in found[target]} if terminals else found[target]
            if not more <= found[twin]:
                found[twin] |= more
                pending.append(twin)
    sets = {0: {()}} | {state: found[twin] for state, twin in twins.items()}
    return [tuple(sorted(sets.get(state, ()))) for state in range(len(after))]


def _simple(transducer: LexemeTransducer, twin: int) -> set[Terminals] | None:
    """The set of a twin without tails and conditions, which needs no search; None for other twins."""
    lexeme, conditional, fallback, _ = transducer.places[twin]
    lexemes = transducer.lexemes
    if not lexemes.plain[lexeme] or conditional or (fallback is not None and fallback.state):
        return None
    found: set[Terminals] = {() if end == lexemes.silent else (end,) for end in lexemes.reachable[lexeme]}
    return found if fallback is None else found | {fallback.terminals[: fallback.mark]}


def _steps(
    transducer: LexemeTransducer, twin: int, live: list[bool], found: set[Terminals]
) -> Iterator[tuple[Terminals, int]]:
    """Steps that do not emit the lexeme with the marked character; the results of those that do are added to
    `found`."""
    end = transducer.at_end[twin]
    if end is not None:
        found.add(end.terminals[: end.mark])
    for step in set(transducer.row(twin)) - {None}:
        assert step is not None
        if step.mark < 0:
            yield step.terminals, step.state
        elif live[step.state]:
            found.add(step.terminals[: step.mark])
