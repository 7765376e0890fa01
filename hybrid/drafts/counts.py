# cython: language_level=3
# mypy: ignore-errors
"""Counts of next tokens, by the tokens before them and by the parser's stack.

What: a *key* is some of the last tokens together with a hash of the top of the parser's stack. For each key
of `LEVELS`, from coarse to fine, `Counts` keeps the tokens that followed most often. It guesses the next
token from all of them: each finer key changes the shares of the coarser ones by its own counts (Witten and
Bell 1991, method C: a key that was seen n times with d different tokens weighs n / (n + d)).
When: one for each `hybrid.drafts.DraftModel`.
Limits: the results are guesses. Keys are hashes of 60 bits. A key has at most six tokens. In a full table, a
new key replaces one that was not seen recently. In free-threaded Python, each method is a critical section of
the counts.

Which keys: measured by tokens per step on 30 documents after 50 others (Qwen vocabulary, drafts of 8, a
prototype that learned whole documents and forgot nothing). Tokens alone, four to none: JSON 3.87, Java 1.56,
SQL 3.51. Four to none, each with the two topmost states: 4.25, 1.52, 3.53. The stack alone: 2.10, 1.18, 1.60.
Both mixed, with six tokens as the finest key: 4.24, 1.63, 3.78. `LEVELS` has one key less. Counting each
token at once, and not at the end of its document, gives 4.69, 2.00, 3.97.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.arrays.prefetch import fetch
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

LEVELS = ((0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (3, 2), (4, 0), (6, 0))
"""Keys from coarse to fine: how many of the last tokens, and how many states from the top of the stack."""

N_LEVELS = cython.declare(cython.Py_ssize_t, len(LEVELS))
LEVEL: cython.Py_ssize_t[16] = [part for level in LEVELS for part in level]

RECENT = cython.declare(cython.Py_ssize_t, 6)
"""Of the last tokens, those that keys have."""

WAYS = cython.declare(cython.Py_ssize_t, 4)
"""Slots that a key may be in."""

FIELDS = cython.declare(cython.Py_ssize_t, 16)
"""Numbers of a slot, 64 bytes: place and check (30 bits each, the key), total, age, and pairs of a token and
its count, 0 where there is none."""

TOKENS = cython.declare(cython.Py_ssize_t, 6)
GUESSES = cython.declare(cython.Py_ssize_t, 8)

NEGLIGIBLE = cython.declare(cython.double, 0.001)
"""What coarser keys are not asked to share: a state that is known well takes two keys in place of eight."""

MOST_TOTAL = cython.declare(cython.Py_ssize_t, 1 << 15)
"""Where a slot's counts are halved, so that what is new still counts."""

MOST_AGE = cython.declare(cython.Py_ssize_t, 15)

FIRST_SLOTS = 1024
SLOT_BYTES = 64
TOP_BITS = cython.declare(cython.Py_ssize_t, 20)
"""Of each of the hashes of the top that `learn` and `guesses` take in one number."""

TOP = cython.declare(cython.Py_ssize_t, (1 << 20) - 1)


@cython.final
@cython.cclass
class Counts:
    """Counts of next tokens by keys.

    Args:
        most: most slots, a power of two that is at least `FIRST_SLOTS`.

    Attributes:
        rows: the slots, int32[n, 16], n a power of two.
        used: number of slots that hold a key.
    """

    def __init__(self, most: cython.Py_ssize_t) -> None:
        self.most = most
        self.used = 0
        self.rows = np.zeros((FIRST_SLOTS, FIELDS), np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return SLOT_BYTES * self.rows.shape[0]

    def find(self, place: cython.Py_ssize_t, check: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the slot of a key, or -1 if there is none."""
        at = (place & (self.rows.shape[0] // WAYS - 1)) * WAYS
        for i in range(at, at + WAYS):
            if self.rows[i, 1] == check and self.rows[i, 0] == place and self.rows[i, 2] > 0:
                return i
        return -1

    def claim(self, place: cython.Py_ssize_t, check: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the slot of a key. A new key replaces the one that was not seen for the longest time."""
        found = self.find(place, check)
        if found >= 0:
            return found
        if 4 * self.used >= 3 * self.rows.shape[0] and self.rows.shape[0] < self.most:
            self._grow()
        at = (place & (self.rows.shape[0] // WAYS - 1)) * WAYS
        found = at
        for i in range(at, at + WAYS):
            if self.rows[i, 2] == 0:
                found = i
                break
            if self.rows[i, 3] < self.rows[found, 3]:
                found = i
        if self.rows[found, 2] == 0:
            self.used += 1
        else:
            for i in range(at, at + WAYS):
                if self.rows[i, 3] > 0:
                    self.rows[i, 3] -= 1
        for k in range(FIELDS):
            self.rows[found, k] = 0
        self.rows[found, 0] = cython.cast(cython.int, place)
        self.rows[found, 1] = cython.cast(cython.int, check)
        return found

    def add(self, slot: cython.Py_ssize_t, token: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.void:
        """Count a token in a slot. If there is no room for another token, the count of the rarest one
        decreases."""
        k: cython.Py_ssize_t
        rarest: cython.Py_ssize_t = 4
        for k in range(4, FIELDS, 2):
            if self.rows[slot, k + 1] > 0 and self.rows[slot, k] == token:
                self.rows[slot, k + 1] += cython.cast(cython.int, count)
                break
            if self.rows[slot, k + 1] < self.rows[slot, rarest + 1]:
                rarest = k
        else:
            if self.rows[slot, rarest + 1] > count:
                self.rows[slot, rarest + 1] -= cython.cast(cython.int, count)
            else:
                self.rows[slot, rarest] = cython.cast(cython.int, token)
                self.rows[slot, rarest + 1] = cython.cast(cython.int, count)
        self.rows[slot, 2] += cython.cast(cython.int, count)
        if self.rows[slot, 3] < MOST_AGE:
            self.rows[slot, 3] += 1
        if self.rows[slot, 2] >= MOST_TOTAL:
            self.rows[slot, 2] = (self.rows[slot, 2] + 1) >> 1
            for k in range(5, FIELDS, 2):
                self.rows[slot, k] = (self.rows[slot, k] + 1) >> 1

    def _grow(self) -> None:
        """Double the number of slots. The slots of a place are divided between two places, so that all of
        them fit."""
        new: cython.int[:, ::1] = np.zeros((2 * self.rows.shape[0], FIELDS), np.int32)
        old: cython.int[:, ::1] = self.rows
        if new.shape[0] != 2 * old.shape[0]:  # another thread was here while the array was made
            return
        for i in range(old.shape[0]):
            if old[i, 2] > 0:
                at: cython.Py_ssize_t = (old[i, 0] & (new.shape[0] // WAYS - 1)) * WAYS
                while new[at, 2] > 0:
                    at += 1
                for k in range(FIELDS):
                    new[at, k] = old[i, k]
        self.rows = new

    # ---------------------------------------------------------------- learning and guessing

    def learn_one(self, recent, top, token):
        """Count a token; see `learn`. `recent` has `RECENT` tokens, the last one first, and -1 where there
        are no more."""
        with cython.critical_section(self):
            self.look_up(recent, top)
            for i in range(N_LEVELS):
                self.add(self.claim(self.places[i], self.checks[i]), token, 1)
        return 0

    def look_up(self, recent, top):
        """Write all keys to `places` and `checks`, and prefetch their slots. Each slot is a cache miss in a
        table of megabytes; waiting for all of them at once makes a draft of Java take 13 us instead of 18."""
        first: cython.Py_ssize_t = 1
        second: cython.Py_ssize_t = 2
        taken: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t = self.rows.shape[0] // WAYS - 1
        for i in range(N_LEVELS):
            while taken < LEVEL[2 * i]:
                first, second = mix(first, recent[taken] + 2), mix(second, recent[taken] + 3)
                taken += 1
            state = top_of(top, LEVEL[2 * i + 1])
            self.places[i] = mix(mix(first, i), state)
            self.checks[i] = mix(mix(second, state), i)
            at = (self.places[i] & last) * WAYS
            fetch(cython.cast(cython.Py_ssize_t, cython.address(self.rows[at, 0])))
            fetch(cython.cast(cython.Py_ssize_t, cython.address(self.rows[at + 1, 0])))

    def guess(self, recent, top, prior, share):
        """Write guesses to `tokens` and `shares`, the likeliest first. Return how many. Callers hold the
        counts' critical section until they have read them.

        Args:
            recent: as for `learn_one`.
            top: as for `learn`.
            prior: a token that the grammar forces, or -1.
            share: the share of this token before any counts.
        """
        self.look_up(recent, top)
        n: cython.Py_ssize_t = 0
        rest: cython.double = 1
        for i in range(N_LEVELS - 1, -1, -1):  # from fine to coarse, which share what the finer ones leave
            slot = self.find(self.places[i], self.checks[i])
            if slot < 0:
                continue
            different: cython.Py_ssize_t = 0
            k: cython.Py_ssize_t
            for k in range(5, FIELDS, 2):
                different += self.rows[slot, k] > 0
            part: cython.double = rest / (self.rows[slot, 2] + different)
            for k in range(4, FIELDS, 2):
                if self.rows[slot, k + 1] > 0:
                    token = cython.cast(cython.Py_ssize_t, self.rows[slot, k])
                    n = self.put(n, token, part * self.rows[slot, k + 1])
            rest = part * different
            if rest < NEGLIGIBLE:
                return n
        if prior >= 0:
            n = self.put(n, prior, rest * share)
        return n

    def put(self, n: cython.Py_ssize_t, token: cython.Py_ssize_t, share: cython.double) -> cython.Py_ssize_t:
        """Add to the share of a guess, and keep the likeliest guesses first. Return how many guesses there
        are. If there is no room, a new guess replaces the last one."""
        at: cython.Py_ssize_t = 0
        while at < n and self.tokens[at] != token:
            at += 1
        if at < n:
            share += self.shares[at]
        elif n < GUESSES:
            n += 1
        elif share > self.shares[n - 1]:
            at = n - 1
        else:
            return n
        while at > 0 and self.shares[at - 1] < share:
            self.tokens[at], self.shares[at] = self.tokens[at - 1], self.shares[at - 1]
            at -= 1
        self.tokens[at] = token
        self.shares[at] = share
        return n

    def learn(self, recent: list, top: cython.Py_ssize_t, token: cython.Py_ssize_t) -> None:
        """Count a token.

        Args:
            recent: the tokens before it, the last one at the end.
            top: three hashes of 20 bits, of the topmost state, the two and the three topmost states; 0 if the
                stack is unknown.
            token: an id.
        """
        last = cython.declare(cython.Py_ssize_t[8])
        newest_first(recent, last)
        self.learn_one(last, top, token)

    def guesses(
        self, recent: list, top: cython.Py_ssize_t, prior: cython.Py_ssize_t = -1, share: cython.double = 0.0
    ) -> list:
        """Return likely next tokens and their shares, the likeliest first: at most eight.

        Args:
            recent, top: as for `learn`.
            prior: a token that the grammar forces, or -1.
            share: the share of this token before any counts.
        """
        last = cython.declare(cython.Py_ssize_t[8])
        newest_first(recent, last)
        found: list = []
        with cython.critical_section(self):
            for i in range(self.guess(last, top, prior, share)):
                found.append((self.tokens[i], self.shares[i]))
        return found

    # ---------------------------------------------------------------- as a whole

    def copied(self) -> Any:
        """Return a copy of the slots, int32[n, 16]."""
        with cython.critical_section(self):
            old: cython.int[:, ::1] = self.rows
        made = np.empty((old.shape[0], FIELDS), np.int32)
        rows: cython.int[:, ::1] = made
        with cython.critical_section(self):
            for i in range(old.shape[0]):  # not by numpy, which may let other threads in
                for k in range(FIELDS):
                    rows[i, k] = old[i, k]
        return made

    def merge(self, slots: Any) -> None:
        """Add the counts of other slots (`copied`, or checked by `check_slots`)."""
        rows: cython.const[cython.int][:, ::1] = slots
        for i in range(rows.shape[0]):
            if rows[i, 2] <= 0:
                continue
            with cython.critical_section(self):
                slot = self.claim(rows[i, 0], rows[i, 1])
                k: cython.Py_ssize_t
                for k in range(4, FIELDS, 2):
                    if rows[i, k + 1] > 0:
                        self.add(slot, rows[i, k], rows[i, k + 1])


@cython.cfunc
@cython.exceptval(-1, check=False)
def newest_first(recent: list, last: cython.pointer(cython.Py_ssize_t)) -> cython.int:
    """Write the last tokens, the last one first."""
    n: cython.Py_ssize_t = len(recent)
    for i in range(RECENT):
        last[i] = recent[n - 1 - i] if i < n else -1
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def top_of(top: cython.Py_ssize_t, depth: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the hash of some topmost states; 0 for none."""
    return (top >> (TOP_BITS * (depth - 1))) & TOP if depth else 0


def check_slots(slots: Any, n_tokens: int) -> str:
    """Return what is wrong with slots from outside; an empty text if nothing is.

    Args:
        slots: an array.
        n_tokens: number of ids.
    """
    if slots.dtype != np.int32 or slots.ndim != 2 or slots.shape[1] != 16:
        return f"it is {slots.dtype} of shape {slots.shape}"
    n = len(slots)
    if n < FIRST_SLOTS or n & (n - 1):
        return f"the number of slots must be a power of two of at least {FIRST_SLOTS}, but is {n}"
    full = slots[slots[:, 2] != 0]
    tokens, counts = full[:, 4::2], full[:, 5::2]
    if full.size and (
        full[:, :2].min() < 0
        or full[:, :2].max() >= 1 << 30
        or full[:, 2].min() < 0
        or full[:, 2].max() >= 1 << 15
        or counts.min() < 0
        or counts.max() >= 1 << 15
        or tokens.min() < 0
        or tokens.max() >= n_tokens
    ):
        return "a number is out of range"
    return ""
