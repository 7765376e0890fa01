"""Token classes: sets of tokens that a grammar cannot distinguish.

What: `compute_classes` gives each token id a class. All tokens of a class have equal bits in every mask of
the grammar (relation "acceptance"), or also lead to the same stacks ("displacement").
When: once for each grammar and vocabulary. It takes a few milliseconds to a few tenths of a second.
Limits: only grammars whose masks depend on bytes and stacks alone. Others (token ids, counts, lazy rules) are
refused; the error names the construct. `Capacity` bounds the computation (`BudgetExceeded`).
"""

from __future__ import annotations

import time
from typing import Any, Literal, get_args

import numpy as np

from equivalence.arguments import check_count, check_seconds, shown
from equivalence.classes.explore import Capacity, explore, out_of_bytes
from equivalence.classes.partition import partition_runs
from equivalence.classes.token_classes import TokenClasses
from equivalence.deadline import Deadline
from equivalence.errors import ArgumentError, BudgetExceeded, HybridError
from equivalence.network import Network, build_network
from equivalence.network.grammar_reader import ParsedGrammar, read_grammar
from equivalence.network.sizes import too_large
from equivalence.runs import ClassRuns, tokens_of
from equivalence.runs.class_numbers import number_runs
from equivalence.vocabulary import Vocabulary

Relation = Literal["acceptance", "displacement"]

NETWORK_BYTES_A_STATE = 1024
"""Building a network takes at most this many bytes for each state of its largest automaton; 580 to 960 were
measured."""

UNMERGED_STATES_FACTOR = 4
"""The bound on states before merging, as a multiple of the bound after it. Merging takes a microsecond for
each state. Of the 11,305 schemas of MaskBench, three have 120,000 to 300,000 states before merging, and
14,000 to 28,000 after it."""

__all__ = ["Relation", "TokenClasses", "compute_classes"]


def compute_classes(
    grammar: Any,
    vocabulary: Vocabulary,
    relation: Relation = "acceptance",
    *,
    capacity: Capacity = Capacity(),
    max_states: int = 200_000,
    seconds: float | None = None,
) -> TokenClasses:
    """Compute the token classes of a grammar for a vocabulary.

    Args:
        grammar: an `xgrammar.Grammar`, or its serialised form parsed by `json.loads`.
        vocabulary: the vocabulary. Its trie is built at first use.
        relation: "acceptance" means equal bits in every mask, which is enough if an engine is advanced with
            the bytes of tokens. "displacement" also means the same stacks afterwards, so that an engine can
            be advanced with representatives (CFGzip's relation); it has more classes, and is slower.
        capacity: limits of the exploration, and of all memory (`Capacity.bytes`).
        max_states: bound on the states of the grammar network.
        seconds: time limit, from reading the grammar to the classes. ``None`` means no limit.

    Raises:
        UnsupportedGrammar: masks depend on more than bytes and stacks; the message names the construct.
        BudgetExceeded: a bound was exceeded.
        HybridError: `relation` or a bound is not allowed, or `grammar` or `vocabulary` has another type.
    """
    if not isinstance(vocabulary, Vocabulary):
        raise ArgumentError(f"vocabulary must be a Vocabulary, but is {shown(vocabulary)}")
    if not isinstance(grammar, dict | ParsedGrammar) and not hasattr(grammar, "serialize_json"):
        raise ArgumentError(
            "grammar must be an xgrammar.Grammar, such as xgrammar.Grammar.from_ebnf(text), or its "
            f"serialised form, but is {shown(grammar)}"
        )
    if relation not in get_args(Relation):
        raise HybridError(
            f"relation must be {' or '.join(map(repr, get_args(Relation)))}, but is {relation!r}"
        )
    for name, bound in zip(Capacity._fields, capacity, strict=True):
        check_count(f"capacity.{name}", bound)
    check_count("max_states", max_states)
    check_seconds("seconds", seconds)
    vocabulary.byte_order  # noqa: B018 - made with the trie, outside any computation
    deadline = Deadline(seconds)
    read = read_grammar(grammar)
    return classes_and_network(read, vocabulary, relation, capacity, max_states, deadline)[0]


def classes_and_network(
    grammar: Any,
    vocabulary: Vocabulary,
    relation: Relation,
    capacity: Capacity,
    max_states: int,
    deadline: Deadline,
) -> tuple[TokenClasses, Network]:
    """Build the network of a grammar and explore it. Return the classes and the network.

    See `compute_classes` for the arguments.

    Raises:
        UnsupportedGrammar, BudgetExceeded: as for `compute_classes`.
    """
    began = time.perf_counter()
    network = network_within(grammar, vocabulary, relation, capacity, max_states, deadline)
    network.below(deadline)
    built = time.perf_counter()
    classes = classes_of_network(network, vocabulary, relation, capacity, deadline)
    classes.seconds["network"] = built - began
    return classes, network


def network_within(
    grammar: Any, vocabulary: Vocabulary, relation: Relation, capacity: Capacity, max_states: int,
    deadline: Deadline,
) -> Network:  # fmt: skip
    """Build the network of a grammar for classes of a relation, without what may lie below its states.

    See `compute_classes` for the arguments.

    Raises:
        UnsupportedGrammar, BudgetExceeded: as for `compute_classes`.
    """
    # displacement distinguishes every count, so every bound of a repeat matters, however large
    token_bytes = 1 << 40 if relation == "displacement" else vocabulary.trie.longest
    # states that the bound on bytes allows while the network is built
    within_bytes = max(capacity.bytes // NETWORK_BYTES_A_STATE, 1)
    unmerged = UNMERGED_STATES_FACTOR * max_states
    try:
        network = build_network(
            grammar, token_bytes=token_bytes, max_states=min(unmerged, within_bytes), deadline=deadline
        )
    except BudgetExceeded as error:
        if deadline.is_over:
            raise
        raise (too_large(max_states) if within_bytes >= unmerged else out_of_bytes(capacity)) from error
    if network.n_states > max_states:
        raise too_large(max_states)
    return network


def classes_of_network(
    network: Network,
    vocabulary: Vocabulary,
    relation: Relation,
    capacity: Capacity,
    deadline: Deadline,
) -> TokenClasses:
    """Compute classes by exploring a network that `network_within` has built.

    Raises:
        BudgetExceeded: as for `compute_classes`.
    """
    trie = vocabulary.trie
    below = network.below(deadline)
    built = time.perf_counter()
    exploration = explore(
        network, trie, displacement=relation == "displacement", capacity=capacity, deadline=deadline,
    )  # fmt: skip
    explored = time.perf_counter()
    order = vocabulary.byte_order
    runs = partition_runs(exploration, network, trie, order.byte_starts, capacity=capacity, deadline=deadline)
    # the bits of a stop id that is also text do not follow from its text: it gets a class of its own
    alone = np.array(vocabulary.stop_token_ids, np.int64)
    representatives, class_of_run, class_of_alone = number_runs(
        runs.classes, runs.starts, int(runs.classes.max(initial=-1)) + 1, order.first_ids, order.shortest,
        alone, trie.group_of_token,
    )  # fmt: skip
    numbered = ClassRuns(runs.starts, class_of_run)
    class_of_token = None
    if (class_of_alone >= 0).any():
        class_of_token = tokens_of(numbered, order)
        class_of_token[alone] = class_of_alone
    done = time.perf_counter()
    phases = {"network": 0.0, "explore": explored - built, "partition": done - explored}
    sizes = {
        "states": network.n_states,
        "contexts": len(below.contexts),
        "configurations": exploration.n_configurations,
        "items": exploration.n_items,
        "outcomes": exploration.n_outcomes,
    }
    by_runs = class_of_token is None
    return TokenClasses(
        class_of_token, len(representatives), representatives, relation, phases, sizes,
        runs=numbered if by_runs else None, order=order if by_runs else None,
    )  # fmt: skip
