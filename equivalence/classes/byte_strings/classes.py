"""Classes of byte strings: tokens that XGrammar's own automata cannot tell apart byte by byte.

What: two tokens share a class if they are equally long and, position by position, their bytes do the same in
every state that may be there, and are of the same UTF-8 kind. Whatever else an engine counts while it reads
them (characters, tokens, first ends, positions) is then equal too, and so is what it leaves behind.
When: for grammars with constructs beyond bytes and stacks, and where an exploration outgrows its capacity.
Limits: many more classes than an exploration finds (thousands), none of them wrong; ids that the grammar
names and stop ids are alone. Needs XGrammar's compiler; a few milliseconds, and some for 128k ids.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.classes.byte_strings import Features, find_features
from equivalence.classes.byte_strings.automata import PHASE, Automata, read_automata
from equivalence.classes.byte_strings.walking import TooManySets, number_keys, string_keys
from equivalence.classes.token_classes import TokenClasses
from equivalence.deadline import Deadline
from equivalence.network.reading import read_grammar
from equivalence.trie import Trie
from equivalence.vocabulary import Vocabulary

MAX_SETS = 20_000
"""Sets of states that positions are told apart by; where they do not suffice, all states count everywhere."""


def byte_string_classes(
    grammar: Any,
    vocabulary: Vocabulary,
    *,
    features: Features | None = None,
    max_sets: int = MAX_SETS,
    cause: str = "",
    deadline: Deadline | None = None,
) -> TokenClasses:
    """Classes that refine displacement equivalence, whatever a grammar counts (docs/theory.md, section 10).

    Args:
        grammar: an `xgrammar.Grammar`, or its serialised form parsed by `json.loads`.
        vocabulary: token bytes; its trie is built on first use.
        features: those of the grammar, if they are known already.
        max_sets: bound on the sets of states; where it is met, bytes are parted by all states at once.
        cause: why such classes are wanted, if not for the grammar's features.
        deadline: when to give up.

    Raises:
        BudgetExceeded: it is too late.
    """
    deadline = deadline or Deadline()
    deadline.check(PHASE)
    serialized = read_grammar(grammar).whole()
    if features is None:
        features = find_features(serialized)
    trie = vocabulary.trie
    began = time.perf_counter()
    automata = read_automata(serialized, deadline)
    read = time.perf_counter()
    deadline.check(PHASE)
    if automata is None:
        keys, n_keys, method, n_sets = (
            np.arange(trie.n_groups, dtype=np.int64),
            trie.n_groups,
            "distinct strings",
            0,
        )
    else:
        keys, n_keys, n_sets = _string_keys(automata, trie, max_sets, deadline)
        method = "byte strings"
    both_ways = _read_both_ways(features, keys, vocabulary, trie)
    trial = _needs_trial(features, automata)
    keys_of_tokens, n_keys = _token_keys(keys, n_keys, features, vocabulary, trie)
    class_of_token, representatives = number_keys(keys_of_tokens, n_keys, vocabulary.token_lengths)
    done = time.perf_counter()
    return TokenClasses(
        class_of_token,
        len(representatives),
        representatives,
        "displacement",
        {"automata": read - began, "strings": done - read},
        {"states": 0 if automata is None else len(automata.starts) - 1, "sets": n_sets},
        method,
        trial,
        both_ways if features.edges else frozenset(),
        cause or f"the grammar has {features}",
    )


def _string_keys(
    automata: Automata, trie: Trie, max_sets: int, deadline: Deadline
) -> tuple[NDArray[np.int64], int, int]:
    """Key of each group's string of byte classes, -1 where no state reads one of its bytes."""
    with deadline.stopping(PHASE) as stop:
        account = Account(stop)
        with contextlib.suppress(TooManySets):
            return string_keys(trie, automata, account, max_sets)
        return string_keys(trie, automata, account)


def _read_both_ways(
    features: Features, keys: NDArray[np.int64], vocabulary: Vocabulary, trie: Trie
) -> frozenset[int]:
    """The named ids of several bytes that are also read as text.

    `accept_token` joins both outcomes, and what begins after the id is noted at a position inside the text:
    from then on masks may contradict it. Before, they do not: in 54,000 masks of random grammars with token
    edges, each contradiction was met after such a token, and none before.
    """
    return frozenset(
        token_id
        for token_id in features.named
        if 0 <= token_id < vocabulary.size
        and len(vocabulary.tokens[token_id]) > 1
        and keys[trie.group_of_token[token_id]] >= 0
    )


def _needs_trial(features: Features, automata: Automata | None) -> bool:
    """Whether XGrammar's masks may contradict its `accept_token` from the beginning (docs/limits.md)."""
    if automata is None:
        return features.beyond_stacks
    # a budget of characters is enforced where some state is within it: masks look at each state alone
    return features.exclusions or features.max_chars or automata.contradicting


def _token_keys(
    keys: NDArray[np.int64], n_keys: int, features: Features, vocabulary: Vocabulary, trie: Trie
) -> tuple[NDArray[np.int64], int]:
    """Keys of the ids: those of their strings, but single ones for ids that count as themselves."""
    text = trie.group_of_token >= 0
    token_keys = np.full(vocabulary.size, -1, np.int64)
    token_keys[text] = keys[trie.group_of_token[text]]
    if features.exclusions:
        # bytes that no state reads: such a token passes an exclusion whole, as so many characters
        unread = np.flatnonzero(text & (token_keys < 0))
        token_keys[unread] = n_keys
        if features.max_chars:
            counts = [_characters(vocabulary.tokens[token_id]) for token_id in unread.tolist()]
            token_keys[unread] += np.array(counts, np.int64)  # of no type where there are none
        n_keys = int(token_keys.max(initial=n_keys)) + 1
    named = np.array([i for i in features.named if 0 <= i < vocabulary.size], np.int64)
    stops = np.array(vocabulary.stop_token_ids, np.int64)
    # a stop id that no state reads and that is not named stays without a class
    alone = np.union1d(named[text[named]], stops[token_keys[stops] >= 0])
    token_keys[alone] = n_keys + np.arange(len(alone))
    return token_keys, n_keys + len(alone)


def _characters(token: bytes) -> int:
    """Bytes that begin a character, as XGrammar counts them."""
    return sum(byte & 0xC0 != 0x80 for byte in token)
