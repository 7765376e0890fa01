# cython: language_level=3
# mypy: ignore-errors
"""Chains of guesses along a classifier's configurations, without a matcher that moves.

What: `chain` guesses token after token, and follows each by the steps that its session knows; `learn` counts
the last steps of a sequence, whose history has the configuration before each.
When: by `hybrid.drafts.model`, for sequences of strategy "classifier" in the session under way.
Limits: what is not known is asked of `guide`: the top of a stack, a step, a forced text. Tables are those of
the sequence's session, which it does not leave meanwhile.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence
from cython.cimports.hybrid.classifier.steps import following
from cython.cimports.hybrid.drafts.counts import Counts

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)

RECENT = cython.declare(cython.Py_ssize_t, 6)

FORCED = cython.declare(cython.Py_ssize_t, 1 << 60)
"""Of what `tops` has of a configuration: whether text is forced there. Below are three hashes of 20 bits."""

TRIES = cython.declare(cython.Py_ssize_t, 3)
"""Guesses at one place that the grammar may refuse."""


@cython.cfunc
@cython.exceptval(-1, check=False)
def read_last(
    known: CachedSequence, made: cython.Py_ssize_t, last: cython.pointer(cython.Py_ssize_t)
) -> cython.int:
    """Write the ids that were read before a step, the last one first; -1 before them, and before text."""
    n: cython.Py_ssize_t = 0
    while n < RECENT and made > 0:
        made -= 1
        read = known.history[2 * made + 1]
        if read < -1:
            break
        last[n] = read if read >= 0 else known.first_stop
        n += 1
    while n < RECENT:
        last[n] = -1
        n += 1
    return 0


def learn(
    counts: Counts,
    known: CachedSequence,
    new: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    tops: dict,
    guide: object,
) -> None:
    """Count the last steps of a sequence.

    Args:
        counts: what is written.
        known: the sequence.
        new: steps; more than were made are all of them.
        begin: the first step whose configuration is one of the session.
        tops: what is known of the configurations of its session.
        guide: has ``top(known, configuration)``, which finds what is not.
    """
    last = cython.declare(cython.Py_ssize_t[8])
    first: cython.Py_ssize_t = max(known.made - new, 0)
    end: cython.Py_ssize_t = known.made
    for i in range(first, end):
        read = known.history[2 * i + 1]
        if read < -1:
            continue
        configuration: cython.Py_ssize_t = known.history[2 * i]
        top: cython.Py_ssize_t = 0
        if i >= begin:
            described = tops.get(configuration)
            if described is None:
                described = guide.top(known, configuration)
            top = described
        read_last(known, i, last)
        counts.learn_one(last, top & (FORCED - 1), read if read >= 0 else known.first_stop)


def chain(
    counts: Counts,
    known: CachedSequence,
    tops: dict,
    guide: object,
    most: cython.Py_ssize_t,
    threshold: cython.double,
) -> list:
    """Tokens that are likely to follow, each allowed after those before it.

    Args:
        counts: what guesses are made from.
        known: the sequence, which does not move.
        tops, guide: as of `learn`; ``guide.step(known, configuration, token)`` finds a step that is not
            known, 0 for none, and -1 for a token that ends the sequence; ``guide.forced(known, configuration,
            last, before)`` gives a token that spells forced text and its share.
        most: tokens.
        threshold: the chain ends before it would be less likely than that.

    Returns:
        Their ids.
    """
    last = cython.declare(cython.Py_ssize_t[8])
    tokens = cython.declare(cython.Py_ssize_t[8])
    shares = cython.declare(cython.double[8])
    found: list = []
    configuration: cython.Py_ssize_t = known.config
    together: cython.double = 1
    read_last(known, known.made, last)
    for _ in range(most):
        described = tops.get(configuration)
        if described is None:
            described = guide.top(known, configuration)
        top: cython.Py_ssize_t = described
        prior: cython.Py_ssize_t = -1
        share: cython.double = 0
        if top & FORCED:
            prior, share = guide.forced(known, configuration, last[0], last[1])
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
            after = following(known.steps, configuration, tokens[k])
            if after < 0 or known.first_stop <= tokens[k] <= known.last_stop:
                after = guide.step(known, configuration, tokens[k])
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


def first_own(known: CachedSequence) -> int:
    """The first step before which the configuration is one of the session."""
    return known.brought


def last_read(known: CachedSequence, most: cython.Py_ssize_t) -> list:
    """The last ids that were read, at most so many, in order; those behind the last text."""
    found: list = []
    at: cython.Py_ssize_t = known.made
    while at > 0 and len(found) < most:
        at -= 1
        read: Any = known.history[2 * at + 1]
        if read < -1:
            break
        found.append(int(read) if read >= 0 else known.first_stop)
    return found[::-1]
