# cython: language_level=3
# mypy: ignore-errors
"""Chains of guesses along a classifier's configurations, without moving a matcher.

What: `chain` guesses one token after the other, and follows each by the cached steps of the session. `learn`
counts the last steps of a sequence; the history of the sequence has the configuration before each step.
When: by `hybrid.drafts.model`, for sequences of strategy "classifier" in the current session.
Limits: `guide` finds what is not cached: the top of a stack, a step, a forced text. All tables are those of
the sequence's session, which the sequence does not leave meanwhile.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.deadline.deadline import Deadline
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence
from cython.cimports.hybrid.classifier.step_cache import following
from cython.cimports.hybrid.drafts.counts import Counts

check_source(__name__)

RECENT = cython.declare(cython.Py_ssize_t, 6)

FORCED = cython.declare(cython.Py_ssize_t, 1 << 60)
"""Of what `tops` has of a configuration: whether text is forced there. Below are three hashes of 20 bits."""

TRIES = cython.declare(cython.Py_ssize_t, 3)
"""Guesses at one place that the grammar may refuse."""


@cython.cfunc
@cython.exceptval(-1, check=False)
def read_last(
    sequence: CachedSequence, made: cython.Py_ssize_t, last: cython.pointer(cython.Py_ssize_t)
) -> cython.int:
    """Write the ids that were read before a step, the last one first. Where there are no more ids, or text
    was read, write -1."""
    n: cython.Py_ssize_t = 0
    while n < RECENT and made > 0:
        made -= 1
        read = sequence.history[2 * made + 1]
        if read < -1:
            break
        last[n] = read if read >= 0 else sequence.first_stop
        n += 1
    while n < RECENT:
        last[n] = -1
        n += 1
    return 0


@cython.cfunc
def begun(deadline: object, seconds: cython.double) -> object:
    """The deadline of a call. It begins with what is not cached, because known tokens need no clock."""
    return Deadline(seconds) if deadline is None else deadline


def learn(
    counts: Counts, sequence: CachedSequence, new: cython.Py_ssize_t, begin: cython.Py_ssize_t, tops: dict,
    guide: object, seconds: cython.double,
) -> None:  # fmt: skip
    """Count the last steps of a sequence.

    Args:
        counts: the counts, which are changed.
        sequence: the sequence.
        new: how many of the last steps are counted. A number that is too large means all.
        begin: the first step whose configuration belongs to the session.
        tops: what `guide.top` returned for configurations of the session.
        guide: has a method ``top(sequence, configuration, deadline)``, which finds what is not in `tops`.
        seconds: how long what is not in `tops` may take; tops that are not known by then are guesses.
    """
    last = cython.declare(cython.Py_ssize_t[8])
    deadline: object = None
    first: cython.Py_ssize_t = max(sequence.n_steps - new, 0)
    end: cython.Py_ssize_t = sequence.n_steps
    for i in range(first, end):
        read = sequence.history[2 * i + 1]
        if read < -1:
            continue
        configuration: cython.Py_ssize_t = sequence.history[2 * i]
        top: cython.Py_ssize_t = 0
        if i >= begin:
            described = tops.get(configuration)
            if described is None:
                deadline = begun(deadline, seconds)
                described = guide.top(sequence, configuration, deadline)
            top = described
        read_last(sequence, i, last)
        counts.learn_one(last, top & (FORCED - 1), read if read >= 0 else sequence.first_stop)


def chain(
    counts: Counts, sequence: CachedSequence, tops: dict, guide: object, most: cython.Py_ssize_t,
    threshold: cython.double, seconds: cython.double,
) -> list:  # fmt: skip
    """Return likely next tokens, each allowed after those before it.

    Args:
        counts: the counts from which guesses are made.
        sequence: the sequence, which does not move.
        tops, guide: as for `learn`. ``guide.step(sequence, configuration, token, deadline)`` finds a step
            that is not cached: the configuration, 0 if there is none or no time is left, or -1 for a token
            that ends the sequence. ``guide.forced(sequence, configuration, last, before, deadline)`` returns
            a token that begins forced text, and its share.
        most: most tokens.
        threshold: the chain ends before its probability falls below this.
        seconds: how long what is not cached may take. Then the chain ends.
    """
    last = cython.declare(cython.Py_ssize_t[8])
    tokens = cython.declare(cython.Py_ssize_t[8])
    shares = cython.declare(cython.double[8])
    found: list = []
    deadline: object = None
    configuration: cython.Py_ssize_t = sequence.configuration
    ends_without_stop: cython.bint = sequence.ends_without_stop
    together: cython.double = 1
    read_last(sequence, sequence.n_steps, last)
    for _ in range(most):
        described = tops.get(configuration)
        if described is None:
            deadline = begun(deadline, seconds)
            described = guide.top(sequence, configuration, deadline)
        top: cython.Py_ssize_t = described
        prior: cython.Py_ssize_t = -1
        share: cython.double = 0
        if top & FORCED:
            deadline = begun(deadline, seconds)
            prior, share = guide.forced(sequence, configuration, last[0], last[1], deadline)
        with cython.critical_section(counts):
            n: cython.Py_ssize_t = counts.guess(last, top & (FORCED - 1), prior, share)
            n = min(n, TRIES)
            for k in range(n):  # what is asked below may let other threads guess
                tokens[k] = counts.tokens[k]
                shares[k] = counts.shares[k]
        after: cython.Py_ssize_t = 0
        for k in range(n):
            if together * shares[k] < threshold:
                break
            after = following(sequence.steps, configuration, tokens[k])
            if (
                after < 0
                or ends_without_stop  # whether the text ends is not cached
                or sequence.first_stop <= tokens[k] <= sequence.last_stop
            ):
                deadline = begun(deadline, seconds)
                after = guide.step(sequence, configuration, tokens[k], deadline)
            if after != 0:
                together *= shares[k]
                found.append(tokens[k])
                for i in range(RECENT - 1, 0, -1):
                    last[i] = last[i - 1]
                last[0] = tokens[k]
                break
        if after <= 0:
            break
        configuration = after
    return found
