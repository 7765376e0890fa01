"""Token classes of a Lark grammar: lexer and parser are analysed separately, and combined at the end.

What: `walks` finds the terminal sequences that a token may stand for in each lexer state;
`equivalence.lark.lalr` finds the stacks that accept a sequence. Tokens are one class if no lexer state and
no stack distinguishes them.
When: once for each grammar and vocabulary; `hybrid` runs on the result.
Limits: only acceptance classes. They are exact in the sense of docs/theory.md: a class is never too large.
It may be split if two sets of sequences are accepted by the same stacks in a way that single sequences do
not show.

The parser stack classification paper combines lexer and parser into one automaton, which takes 467 s and 41
GiB for a Java grammar. Separately, both are small: a terminal sequence is classified once, whatever lexer
states and tokens lead to it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.arrays.interning import number_lists
from equivalence.arrays.ranges import ranges
from equivalence.classes.token_classes import TokenClasses
from equivalence.deadline import Deadline
from equivalence.lark.classes.sets import Sets
from equivalence.lark.classes.walks import PHASE as WALK
from equivalence.lark.classes.walks import LexicalWalks, Sequences, last_emitted, walk, within_bytes
from equivalence.lark.lalr import LalrMachine, SequenceTable, StackAutomaton, stack_automaton
from equivalence.lark.lalr.outcomes import ALWAYS, NEVER, PASS
from equivalence.lark.lexer import LexerMachine
from equivalence.runs.class_numbers import number_keys
from equivalence.vocabulary import Vocabulary

PHASE = "the classes of a Lark grammar"
"""The name of this computation in errors."""

BYTES_A_TEXT = 64
"""Most bytes for each text of a pair while all are numbered at once."""


class FactoredClasses(NamedTuple):
    """Token classes, and the data that decides when they are allowed. Q lexer states, C classes.

    Attributes:
        tokens: the classes over the vocabulary.
        set_of: int32[Q, C], for each lexer state and class a set of kinds; the stack must accept one of them.
        stop_set: int32[Q], the same for the end of the text.
        alive_set: int32[Q], the same for the text so far: whether it can continue.
        sets: the kinds of each set, ascending; set 0 is empty, the kind of set 1 is `ALWAYS`.
        automaton: which stacks accept which kinds.
    """

    tokens: TokenClasses
    set_of: NDArray[np.int32]
    stop_set: NDArray[np.int32]
    alive_set: NDArray[np.int32]
    sets: Sequences
    automaton: StackAutomaton


def factored_classes(
    lexer: LexerMachine,
    machine: LalrMachine,
    vocabulary: Vocabulary,
    *,
    max_sequences: int = 1 << 20,
    max_bytes: int = 1 << 30,
    deadline: Deadline | None = None,
) -> FactoredClasses:
    """Compute the token classes of a grammar.

    Args:
        lexer: the grammar's lexer; its terminals have the parser's numbers.
        machine: the grammar's parser.
        vocabulary: the tokens.
        max_sequences: most terminal sequences that the parser distinguishes.
        max_bytes: most bytes of the largest arrays, for the lexer and for the parser.
        deadline: when to give up.

    Raises:
        BudgetExceeded: too many terminal sequences or bytes, or the time ran out.
        UnsupportedGrammar: the parser would reduce forever, or is too large; the message says which.
        ValueError: lexer and parser number the terminals differently.
    """
    if machine.terminals[:-1] != lexer.terminals:
        raise ValueError(
            f"the lexer has the terminals {lexer.terminals}, the parser {machine.terminals[:-1]}; "
            "both have to be made with terminal_names(grammar)"
        )
    began = time.perf_counter()
    deadline = deadline or Deadline()
    tops, group_of = _tops(lexer, machine, deadline)
    with deadline.stopping(WALK) as stop:
        walks = walk(lexer, vocabulary.trie, group_of, max_bytes, stop)
    walked = time.perf_counter()
    table = SequenceTable(machine, max_sequences, max_bytes, deadline)
    numbers, pair_start = _number_texts(walks, table, max_bytes)
    may_end = np.flatnonzero(lexer.at_end >= 0)  # for these states, the end of the text is one more pair
    numbers = np.append(numbers, _number_ends(walks, table, lexer.at_end[may_end]))
    pair_start = np.append(pair_start, pair_start[-1] + 1 + np.arange(len(may_end)))
    group_of_pair = np.append(walks.pairs[:, 2], group_of[may_end]).astype(np.int32)
    numbered = time.perf_counter()
    automaton, kinds = stack_automaton(table, numbers)
    deadline.check(PHASE)
    alike = _alike_on(tops, automaton, deadline)
    with deadline.stopping(PHASE) as stop:
        sets = Sets(tops, alike, automaton.cell_start, automaton.cells, Account(stop))
        set_of_pair = sets.number(kinds, pair_start, group_of_pair)
    distinct_sets = Sequences(*sets.lists())
    of_lexical = np.where(walks.pair >= 0, set_of_pair[walks.pair], 0).astype(np.int32)
    n_pairs = len(walks.pairs)
    stop_set = np.zeros(len(lexer.step), np.int32)
    stop_set[may_end] = set_of_pair[n_pairs:]
    columns = np.ascontiguousarray(of_lexical.T, np.int64).ravel()
    column, first = number_lists(np.arange(of_lexical.shape[1] + 1) * len(of_lexical), columns)
    set_of = of_lexical[:, first]
    tokens, kept = _token_classes(vocabulary, column[walks.class_of_group], np.any(set_of > 0, axis=0))
    done = time.perf_counter()
    sizes = {
        "lexer states": len(lexer.step), "parser states": machine.n_states,
        "lexical classes": walks.pair.shape[1], "pairs": n_pairs, "texts": len(numbers),
        "sequences": table.sequence_numbers.count, "kinds": automaton.n_kinds, "colors": automaton.n_colors,
        "sets": len(distinct_sets.start) - 1,
    }  # fmt: skip
    seconds_of = {"walk": walked - began, "sequences": numbered - walked, "partition": done - numbered}
    return FactoredClasses(
        replace(tokens, seconds=seconds_of, sizes=sizes),
        np.ascontiguousarray(set_of[:, kept]),
        stop_set,
        set_of_pair[walks.empty_pair],
        distinct_sets,
        automaton,
    )


def _tops(
    lexer: LexerMachine, machine: LalrMachine, deadline: Deadline
) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Find the sets of possible tops of the stack, bool[groups, S], and the set of each lexer state,
    int32[Q]."""
    last = last_emitted(lexer, deadline)
    groups = {bits: number for number, bits in enumerate(dict.fromkeys(last))}
    none = len(lexer.terminals)
    emitted = np.zeros((len(groups), none + 1), np.bool_)
    for row, bits in zip(emitted, groups, strict=True):
        deadline.check(PHASE)
        row[:] = [bits >> terminal & 1 for terminal in range(none + 1)]
    tops = emitted[:, machine.shifted_by]
    tops[:, machine.shifted_by < 0] = False
    tops[:, machine.start] = emitted[:, none]
    return tops, np.array([groups[bits] for bits in last], np.int32)


def _number_texts(
    walks: LexicalWalks, table: SequenceTable, max_bytes: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the texts of all pairs, int32, from their ends. int64[pairs + 1]: where those of each pair
    begin."""
    texts, begin = walks.sequences
    tails, first_tail = walks.families
    path, family = walks.rests.T
    rest_start, tail = ranges(first_tail[family], np.diff(first_tail)[family])
    numbers = table.numbers(texts, begin[tails[tail]], begin[tails[tail] + 1])
    path = np.repeat(path, np.diff(rest_start))
    while (left := np.flatnonzero(path)).size:
        path[left], terminals = walks.paths[path[left]].T
        numbers[left] = table.before(terminals, numbers[left])
    emitted, rest, _ = walks.pairs.T
    n_texts = np.diff(rest_start)[rest]
    within_bytes(max_bytes, BYTES_A_TEXT * int(n_texts.sum()), f"{n_texts.sum()} terminal sequences")
    pair_start, place = ranges(rest_start[rest], n_texts)
    emitted = np.repeat(emitted, n_texts)
    return table.numbers(texts, begin[emitted], begin[emitted + 1], numbers[place]), pair_start


def _number_ends(walks: LexicalWalks, table: SequenceTable, at_end: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number the sequences that are emitted at the end of the text, each followed by the end of input."""
    end = table.before(np.array([len(table.machine.terminals) - 1]), np.array([PASS], np.int32))
    texts, begin = walks.sequences
    return table.numbers(texts, begin[at_end], begin[at_end + 1], np.repeat(end, len(at_end)))


def _alike_on(tops: NDArray[np.bool_], automaton: StackAutomaton, deadline: Deadline) -> NDArray[np.int32]:
    """The behaviour of each kind on some tops of stacks (bool[groups, S]), int32[groups, kinds].

    A behaviour is given by the first kind that has it; `NEVER` if all tops refuse it, `ALWAYS` if all accept
    it.
    """
    state, outcome = automaton.cells.T
    owner = np.repeat(np.arange(automaton.n_kinds), np.diff(automaton.cell_start))
    found = np.empty((len(tops), automaton.n_kinds), np.int32)
    for group, some in enumerate(tops):
        deadline.check(PHASE)
        kept = some[state]
        start = np.searchsorted(owner[kept], np.arange(automaton.n_kinds + 1))
        numbers, first = number_lists(2 * start, automaton.cells[kept].ravel())
        found[group] = first[numbers]
        found[group, np.diff(start) == 0] = NEVER
        passed = np.bincount(owner[kept & (outcome == PASS)], minlength=automaton.n_kinds)
        found[group, passed == some.sum()] = ALWAYS
    return found


def _token_classes(
    vocabulary: Vocabulary, of_group: NDArray[np.int32], alive: NDArray[np.bool_]
) -> tuple[TokenClasses, NDArray[np.int64]]:
    """Number the classes of ids by first id. Return them, and the given class of each.

    `of_group` is int32[G], the class of each distinct byte string; `alive` says for each class whether it is
    ever allowed.
    """
    keys = np.append(of_group, -1)[vocabulary.trie.group_of_token]
    keys[~np.append(alive, False)[keys]] = -1
    class_of_token, representatives = number_keys(keys, len(alive), vocabulary.token_lengths)
    tokens = TokenClasses(class_of_token, len(representatives), representatives, "acceptance", {}, {})
    return tokens, keys[representatives]
