"""Token classes of a Lark grammar: lexer and parser apart, put together at the end.

What: `walks` says which terminal sequences a token may stand for in each lexer state; `equivalence.lalr` says which
stacks take a sequence; tokens for which no lexer state and no stack make a difference are one class.
When: once per grammar and vocabulary; what `hybrid` runs on comes from it.
Limits: acceptance classes only. Exact in the sense of docs/theory.md: a class is never too large; it may be split
where two sets of sequences are taken by the same stacks in a way that single sequences do not show.

The parser stack classification paper folds lexer and parser into one automaton, and pays 467 s and 41 GiB for a
Java grammar. Apart, both are small: a terminal sequence is classified once, whatever lexer states and tokens lead
to it.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.factored import _kernels
from equivalence.factored.walks import Sequences, last_emitted, walk
from equivalence.lalr import LalrMachine, SequenceTable, StackAutomaton, stack_automaton
from equivalence.lexing import LexerMachine
from equivalence.token_classes import TokenClasses
from equivalence.vocabulary import Vocabulary

ALWAYS_SET = 1
"""Number of the set of sequences that every stack takes; set 0 is taken by none."""


class FactoredClasses(NamedTuple):
    """Token classes, and what decides them.

    Attributes:
        tokens: the classes over the vocabulary.
        set_of: int32[Q, C], for each lexer state and class the set of kinds of which the stack must take one.
        stop_set: int32[Q], the same for the end of the text.
        alive_set: int32[Q], the same for the text so far: whether it may go on.
        sets: the kinds of each set; set 0 is empty, the kind of set 1 is `_kernels.ALWAYS`.
        automaton: which stacks take which kinds.
        n_lexical: number of classes before the parser was asked.
    """

    tokens: TokenClasses
    set_of: NDArray[np.int32]
    stop_set: NDArray[np.int32]
    alive_set: NDArray[np.int32]
    sets: Sequences
    automaton: StackAutomaton
    n_lexical: int


def factored_classes(lexer: LexerMachine, machine: LalrMachine, vocabulary: Vocabulary) -> FactoredClasses:
    """The token classes of a grammar.

    Raises:
        BudgetExceeded: too many terminal sequences.
    """
    began = time.perf_counter()
    trie = vocabulary.trie
    tops, group_of = _tops(lexer, machine)
    walks = walk(lexer, trie, group_of)
    walked = time.perf_counter()
    n_pairs = len(walks.pair_start) - 1
    ways, way_of_end, way_of_state = _ways_on(lexer, group_of, len(machine.terminals) - 1)
    extra = Sequences.of([text for texts, _ in ways for text in texts])
    texts = np.concatenate([walks.texts.terminals, extra.terminals])
    starts = np.concatenate([walks.texts.start, walks.texts.start[-1] + extra.start[1:]])
    table = SequenceTable(machine)
    numbers = table.numbers(texts, starts)
    numbered = time.perf_counter()
    automaton, kinds = stack_automaton(table, numbers)
    more = np.cumsum([len(texts) for texts, _ in ways])
    pair_start = np.concatenate([walks.pair_start, walks.pair_start[-1] + more])
    alike = _kernels.alike_on(tops, automaton.cell_start, automaton.cells)
    group_of_pair = np.concatenate([walks.group_of_pair, np.array([group for _, group in ways], np.int32)])
    set_of_pair, sets = _kernels.sets_of(
        kinds, pair_start, group_of_pair, tops, alike, automaton.cell_start, automaton.cells
    )
    of_lexical = np.where(walks.pair >= 0, set_of_pair[walks.pair], 0)
    stop_set = np.where(way_of_end >= 0, set_of_pair[n_pairs + way_of_end], 0).astype(np.int32)
    alive_set = set_of_pair[n_pairs + way_of_state]
    column, n = _kernels.equal_columns(of_lexical)
    _, first = np.unique(column, return_index=True)
    set_of = of_lexical[:, first]
    tokens, kept = _token_classes(vocabulary, column[walks.class_of_group], set_of.any(axis=0))
    done = time.perf_counter()
    sizes = {
        "lexer states": len(lexer.step), "parser states": machine.n_states, "lexical classes": len(walks.examples),
        "pairs": n_pairs, "sequences": len(starts) - 1, "numbers": int(table.tables.counts[0]),
        "kinds": automaton.n_kinds, "colors": automaton.n_colors, "sets": len(sets.starts) - 1,
    }  # fmt: skip
    seconds = {"walk": walked - began, "sequences": numbered - walked, "partition": done - numbered}
    used, pool = sets.counts
    return FactoredClasses(
        tokens._replace(seconds=seconds, sizes=sizes), set_of[:, kept], stop_set, alive_set,
        Sequences(pool_of(sets), sets.starts[: used + 1].copy()), automaton, len(walks.examples),
    )  # fmt: skip


def pool_of(lists: object) -> NDArray[np.int32]:
    """The integers of interned lists, one list after the other."""
    return lists.pool[: lists.counts[1]].astype(np.int32)


def _tops(lexer: LexerMachine, machine: LalrMachine) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """bool[groups, S], sets of states that may be on top of the stack; int32[Q], the group of each lexer state."""
    last, group_of = np.unique(last_emitted(lexer), axis=0, return_inverse=True)
    tops = last[:, machine.shifted_by]  # -1 is the last column: nothing was emitted
    tops[:, machine.shifted_by < 0] = False
    tops[last[:, -1], machine.start] = True
    return tops, group_of.astype(np.int32)


def _ways_on(
    lexer: LexerMachine, group_of: NDArray[np.int32], end: int
) -> tuple[list[tuple[tuple[tuple[int, ...], ...], int]], NDArray[np.int64], NDArray[np.int64]]:
    """What else is asked of stacks: (texts of which one must be taken, group), as pairs are.

    Returns (the distinct ones; int64[Q], which one asks whether the text may end in a state, or -1; int64[Q], which
    one asks whether it may go on).
    """
    ways: dict[tuple[tuple[tuple[int, ...], ...], int], int] = {}
    way_of_end = np.full(len(group_of), -1, np.int64)
    way_of_state = np.zeros(len(group_of), np.int64)
    for state, group in enumerate(group_of.tolist()):
        sequence = int(lexer.at_end[state])
        if sequence >= 0:
            way = (((*lexer.sequences[sequence], end),), group)
            way_of_end[state] = ways.setdefault(way, len(ways))
        way_of_state[state] = ways.setdefault((lexer.continuations[state], group), len(ways))
    return list(ways), way_of_end, way_of_state


def _token_classes(vocabulary: Vocabulary, of_group, alive) -> tuple[TokenClasses, NDArray[np.int64]]:
    """Classes over the ids, numbered by first id, and which of the given ones these are."""
    trie = vocabulary.trie
    of_token = np.where(trie.group_of_token >= 0, of_group[trie.group_of_token], -1)
    of_token[~np.append(alive, False)[of_token]] = -1
    kinds, first = np.unique(of_token, return_index=True)
    first, kinds = first[kinds >= 0], kinds[kinds >= 0]
    order = np.argsort(first)
    kept = kinds[order].astype(np.int64)
    number = np.full(len(alive) + 1, -1, np.int32)
    number[kept] = np.arange(len(kept))
    class_of_token = number[of_token]
    by_length = np.lexsort((np.arange(vocabulary.size), vocabulary.token_lengths, class_of_token))
    classes, place = np.unique(class_of_token[by_length], return_index=True)
    representatives = by_length[place[classes >= 0]].astype(np.int32)
    return TokenClasses(class_of_token, len(kept), representatives, "acceptance", {}, {}, "factored"), kept
