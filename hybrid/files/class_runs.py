"""How files store the classes of a vocabulary's ids: run by run, in byte order.

What: `written` makes the members of a file, `read` makes classes from them.
When: by `hybrid.files.files`, for every kind of grammar.
Limits: reading needs the vocabulary's trie and byte order, which are made once (`Vocabulary.prepare`).

Version 2 of the format had a class number for each id. These took 29 KiB of each file, and more than half of
the time to load it: 128,256 numbers were decompressed, checked, and sorted into classes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence import TokenClasses, Vocabulary
from equivalence.runs import ClassRuns
from hybrid.files.checks import MOST, checked_starts, taken
from hybrid.files.container import Arrays, malformed


def written(classes: TokenClasses, vocabulary: Vocabulary) -> Arrays:
    """Make the members: runs of ids in byte order that share a class, as (length, class), and the
    representatives."""
    order = vocabulary.byte_order
    if classes.runs is None:
        numbers, starts = classes.class_of_token[order.tokens], np.arange(len(order.tokens) + 1)
    else:
        numbers, starts = classes.runs.classes, order.token_starts[classes.runs.starts]
    begins = np.flatnonzero(np.diff(numbers, prepend=-2))  # equal neighbours are one run
    return {
        "run_lengths": np.diff(np.append(starts[begins], starts[-1])),
        "run_classes": numbers[begins],
        "representatives": classes.representatives,
    }


def read(arrays: Arrays, vocabulary: Vocabulary, relation: str, sizes: dict[str, Any]) -> TokenClasses:
    """Make classes from members.

    Args:
        arrays: the members.
        vocabulary: the vocabulary for which they were written.
        relation, sizes: as in `TokenClasses`.

    Raises:
        ArtifactError: a number is out of range, or a class does not have its representative.
    """
    order = vocabulary.byte_order
    representatives = taken(arrays, "representatives", (None,), 0, vocabulary.size - 1, np.int32)
    n = len(representatives)
    numbers = taken(arrays, "run_classes", (None,), -1, n - 1, np.int32)
    lengths = taken(arrays, "run_lengths", numbers.shape, 1, MOST)
    starts = checked_starts(lengths, len(order.tokens), "run_lengths")
    groups = np.searchsorted(order.token_starts, starts)
    if np.array_equal(order.token_starts[groups], starts):
        runs = ClassRuns(groups.astype(np.int64), numbers)
        classes = TokenClasses(None, n, representatives, relation, {}, sizes, runs=runs, order=order)
        # ids without a group get any run
        of_group = np.maximum(vocabulary.trie.group_of_token[representatives], 0)
        of_representatives = numbers[np.searchsorted(groups, of_group, side="right") - 1]
    else:  # a stop id that is also text is not in the class of the ids with equal bytes
        given = np.full(vocabulary.size, -1, np.int32)
        given[order.tokens] = np.repeat(numbers, lengths)
        classes = TokenClasses(given, n, representatives, relation, {}, sizes)
        of_representatives = given[representatives]
    if bool((vocabulary.token_lengths[representatives] == 0).any()) or bool(
        (of_representatives != np.arange(n)).any()
    ):
        raise malformed("a class does not have its representative")
    return classes
