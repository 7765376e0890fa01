"""The bound on the states of a network."""

from __future__ import annotations

from equivalence.errors import BudgetExceeded


def too_large(max_states: int) -> BudgetExceeded:
    """The error for an automaton with more than `max_states` states."""
    return BudgetExceeded(
        f"the grammar network has more than {max_states} states; raise Budget.states, or simplify the grammar"
    )
