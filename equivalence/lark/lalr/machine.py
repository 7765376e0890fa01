"""The LALR(1) machine of a Lark grammar: Lark's own parse table as flat arrays.

What: shifts, reductions and gotos over numbered terminals, nonterminals and states. Conflicts are resolved
as in Lark, because the table is Lark's.
When: made once for each Lark grammar. Terminal sequences are classified with it, and matchers parse with it.
Limits: one start symbol; the table of ``Lark(..., parser="lalr")``. States get new numbers, in the order in
which they are reached, because Lark's own numbers change from process to process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import UnsupportedGrammar

if TYPE_CHECKING:
    import lark

END = "$END"
"""Lark's name of the end of input."""


class LalrMachine(NamedTuple):
    """A deterministic parser. A stack is a sequence of states, with the start state at its bottom.

    Attributes:
        terminals: names; the last one is `END`. The number of a terminal is its position.
        nonterminals: names; the number of a nonterminal is its position.
        action: int32[S, T], 0: error; s + 1: shift and go to state s; -(r + 1): reduce by rule r. If Lark
            accepts, the end of input is shifted (to a state that does not exist).
        goto: int32[S, N], the state after a nonterminal, or -1.
        rule_length: int32[R], number of symbols on the right of a rule.
        rule_origin: int32[R], the nonterminal on its left.
        start: the state at the bottom of every stack.
    """

    terminals: tuple[str, ...]
    nonterminals: tuple[str, ...]
    action: NDArray[np.int32]
    goto: NDArray[np.int32]
    rule_length: NDArray[np.int32]
    rule_origin: NDArray[np.int32]
    start: int

    @property
    def n_states(self) -> int:
        """Number of LALR states."""
        return int(self.action.shape[0])

    @property
    def shifted_by(self) -> NDArray[np.int32]:
        """The terminal that leads to each state, int32[S]; -1 for the start, and if a nonterminal leads to
        it."""
        terminal = np.full(self.n_states, -1, np.int32)
        states, columns = np.nonzero(self.action > 0)
        targets = self.action[states, columns] - 1
        inside = targets < self.n_states
        terminal[targets[inside]] = columns[inside]
        return terminal

    @property
    def tops(self) -> NDArray[np.bool_]:
        """The states that may be on top between terminals, bool[S]: those after a terminal, and the start."""
        tops = self.shifted_by >= 0
        tops[self.start] = True
        return tops


def read_machine(grammar: lark.Lark, terminals: tuple[str, ...]) -> LalrMachine:
    """The machine of a grammar that Lark has built.

    Args:
        grammar: made with ``parser="lalr"``.
        terminals: the numbering of the terminals, without the end of input.

    Raises:
        UnsupportedGrammar: another parser, several start symbols, or a terminal that has no number.
    """
    from lark.parsers.lalr_analysis import Shift  # here: Lark is slow to import, and few grammars need it

    if grammar.options.parser != "lalr":
        raise UnsupportedGrammar(f"the grammar's parser must be 'lalr', but is {grammar.options.parser!r}")
    table: Any = grammar.parser.parser._parse_table  # Lark has no public name for it
    if len(table.start_states) != 1:
        starts = ", ".join(sorted(table.start_states))
        raise UnsupportedGrammar(
            f"the grammar must have one start symbol, but has {starts}; choose one of them"
        )
    ((_, start),) = table.start_states.items()
    ((_, end),) = table.end_states.items()
    number = {name: index for index, name in enumerate((*terminals, END))}
    symbols = {symbol for actions in table.states.values() for symbol in actions}
    rules = sorted(
        {rule for actions in table.states.values() for kind, rule in actions.values() if kind is not Shift},
        key=lambda rule: (rule.origin.name, [symbol.name for symbol in rule.expansion]),
    )
    nonterminals = tuple(sorted({symbol for symbol in symbols if symbol not in number}))
    unknown = [name for name in nonterminals if name.isupper()]
    if unknown:
        raise UnsupportedGrammar(
            f"the parse table has the terminals {unknown}, which the lexer does not have"
        )
    number |= {name: index for index, name in enumerate(nonterminals, len(number))}
    rule_number = {rule: index for index, rule in enumerate(rules)}
    states = _in_order(table.states, start, Shift)
    place = {state: index for index, state in enumerate(states)}
    n_terminals = len(terminals) + 1
    action = np.zeros((len(states), n_terminals), np.int32)
    goto = np.full((len(states), len(nonterminals)), -1, np.int32)
    for index, state in enumerate(states):
        for symbol, (kind, target) in table.states[state].items():
            column = number[symbol]
            if kind is not Shift:
                action[index, column] = -(rule_number[target] + 1)
            elif column < n_terminals:
                action[index, column] = place[target] + 1
            else:
                goto[index, column - n_terminals] = place[target]
    action[place[end], -1] = len(states) + 1
    origins = {name: index for index, name in enumerate(nonterminals)}
    return LalrMachine(
        (*terminals, END), nonterminals, action, goto,
        np.array([len(rule.expansion) for rule in rules], np.int32),
        np.array([origins[rule.origin.name] for rule in rules], np.int32), 0,
    )  # fmt: skip


def _in_order(states: dict[int, dict[str, Any]], start: int, shift: Any) -> list[int]:
    """The states in breadth-first order by the names of symbols, without those that cannot be reached."""
    order, seen = [start], {start}
    for state in order:
        for _, (kind, target) in sorted(states[state].items(), key=lambda item: item[0]):
            if kind is shift and target not in seen:
                seen.add(target)
                order.append(target)
    return order


def may_follow(machine: LalrMachine) -> NDArray[np.bool_]:
    """Whether the second terminal may be shifted right after the first one on some stack, bool[T, T].

    An upper bound: only the state on top is considered. The end of input follows like a terminal.
    """
    n = len(machine.terminals)
    allowed = machine.action != 0
    follow = np.zeros((n, n), np.bool_)
    for terminal in range(n):
        targets = np.unique(machine.action[:, terminal])
        targets = targets[(targets > 0) & (targets <= machine.n_states)] - 1
        follow[terminal] = allowed[targets].any(axis=0)
    return follow
