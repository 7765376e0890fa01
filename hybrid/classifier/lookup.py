# cython: language_level=3
# mypy: ignore-errors
"""The configurations and masks after the drafts of many sequences, without the interpreter's lock.

What: a `Lookup` has a *node* for each row that is requested: the place of a sequence, or the place after a
draft token of another node. `fill` finds the configuration and the mask of each node and copies the masks,
in one piece of compiled code if all are known. What is new is computed first. No matcher moves, so nothing
has to be undone.
When: used by `hybrid.api.batch_steps`, for the rows of one step of a server.
Limits: only sequences with classifiers, and one call at a time for each of them, as for every method of a
matcher. Nodes that cannot be found (full tables, a session that is over, ids that are not text) are left to
the caller.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.atomic import published
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence
from cython.cimports.hybrid.classifier.rows import (
    Rows,
    address_of_stops,
    address_of_words,
    allows,
    copy_row,
    fetch_row,
    is_stop_at,
    source_at,
    source_of,
)
from cython.cimports.hybrid.classifier.step_cache import StepCache, following, following_at

from equivalence.arrays.records import Kind

check_source(__name__)

NODE = Kind("sequence parent token configuration source")
TABLES = Kind("first_row first_node steps last_slot masks n_masks stops n_stops configuration n_bits")
ROW = Kind("source address node")

# these replace a configuration: it is not known, the token is not accepted, the text has ended, or one of
# the last two holds for an earlier node
UNKNOWN = cython.declare(cython.Py_ssize_t, -1)
REFUSED = cython.declare(cython.Py_ssize_t, 0)
ENDED = cython.declare(cython.Py_ssize_t, -2)
BELOW = cython.declare(cython.Py_ssize_t, -3)

# these replace a row's node: the row is padding, or its content is given
PADDING = cython.declare(cython.Py_ssize_t, -1)
GIVEN = cython.declare(cython.Py_ssize_t, -2)

REPEATS = -1
"""A value of `refused`: a refused row, and all after it, repeat the row before."""

LOCKED_UP_TO = cython.declare(cython.Py_ssize_t, 4)
"""Up to this many rows are copied while the lock is held: releasing it and waiting for it would take as
long."""


@cython.final
@cython.cclass
class Lookup:
    """The nodes of some sequences, and the rows to which they are copied. Both are added before the look-up.

    Args:
        most_sequences, most: most sequences, and most nodes and rows, that will be added.

    Attributes:
        followers: those of the sequences; None if the rows are given.
        nodes: for each node its sequence, its parent (-1: none), the token that leads to it from there, its
            configuration, and where its mask is, in the form of `Rows`; parents come before their children.
        tables: for each sequence its first row and its first node; where its steps are, and their last slot;
            where the masks of configurations are, and how many; its stop ids, and how many; its
            configuration; bits of a row.
        rows: for each row what is copied to it (an address in the form of `Rows`; 0: nothing), its own
            address, and its node.
        held: objects that must stay in memory while rows are copied.
        n_left: number of unknown nodes.
    """

    def __init__(self, most_sequences: cython.Py_ssize_t, most: cython.Py_ssize_t) -> None:
        self.nodes = empty(NODE, most)
        self.tables = empty(TABLES, most_sequences)
        self.rows = empty(ROW, most)
        self.followers, self.held = [], []
        self.n_nodes = self.n_rows = self.n_left = 0

    def follow(self, follower):
        """Add a sequence, and return its number. Its nodes and rows must be added next."""
        sequence: cython.Py_ssize_t = len(self.followers)
        self.followers.append(follower)
        self.tables[sequence].first_row = self.n_rows
        self.tables[sequence].first_node = self.n_nodes
        return sequence

    def add(self, sequence, parent, token):
        """Add a node, and return its number. There must be room for it."""
        node = self.n_nodes
        self.nodes[node].sequence = sequence
        self.nodes[node].parent = parent
        self.nodes[node].token = token
        self.nodes[node].configuration = UNKNOWN
        self.nodes[node].source = 0
        self.n_nodes += 1
        return node

    def add_row(self, node, address):
        """Add a row at an address, for a node or, with -1, as padding. There must be room for it."""
        self.rows[self.n_rows].source = 0
        self.rows[self.n_rows].address = address
        self.rows[self.n_rows].node = node
        self.n_rows += 1

    def set_rows(self, sequence: cython.Py_ssize_t, masks: cython.uint[:, ::1]) -> None:
        """Set what is copied to the rows of a sequence."""
        row = self.tables[sequence].first_row
        for i in range(masks.shape[0]):
            self.rows[row + i].source = address_of_words(masks[i])
            self.rows[row + i].node = GIVEN
        self.held.append(masks)

    def n_accepted(self, sequence: cython.Py_ssize_t) -> int:
        """How many tokens of a sequence were accepted."""
        count: cython.Py_ssize_t = 0
        end = self.n_nodes
        if sequence + 1 < len(self.followers):
            end = self.tables[sequence + 1].first_node
        for i in range(self.tables[sequence].first_node, end):
            count += self.nodes[i].parent >= 0 and (
                self.nodes[i].configuration > 0 or self.nodes[i].configuration == ENDED
            )
        return count

    def fill(self, full: cython.Py_ssize_t, refused: cython.Py_ssize_t, n_bytes: cython.Py_ssize_t) -> bool:
        """Copy all masks, if all are known. Return whether that was done.

        Args:
            full: the address of a row of ones, for places where the text has ended, and for padding.
            refused: the address of a row for tokens that are not accepted, and for places where the text
                has ended; 0: such rows are unchanged; or `REPEATS`.
            n_bytes: bytes of a row.
        """
        self.look_up_unknown(True, full, refused, n_bytes)
        return self.n_left == 0

    def find(self) -> None:
        """Compute what is new, as far as possible."""
        while self.n_left and self.find_once():
            self.look_up_unknown(False, 0, 0, 0)

    def left(self) -> list[int]:
        """The sequences that are not completely known; their nodes are ignored from now on."""
        found = set()
        i: cython.Py_ssize_t
        for i in range(self.n_nodes):
            if self.is_left(i):
                found.add(self.nodes[i].sequence)
        for i in range(self.n_nodes):
            if self.nodes[i].sequence in found:
                self.nodes[i].configuration = BELOW
        return sorted(found)

    def is_left(self, node):
        """Whether a node is unknown."""
        configuration = self.nodes[node].configuration
        return configuration == UNKNOWN or (configuration > 0 and self.nodes[node].source == 0)

    def look_up_unknown(self, copies, full, refused, n_bytes):
        """Look up what is not known yet. Copy if `copies` is set and everything is known."""
        n: cython.Py_ssize_t = len(self.followers)
        i: cython.Py_ssize_t
        for i in range(n):
            if self.followers[i] is None:
                continue
            follower: CachedSequence = self.followers[i]
            steps: StepCache = follower.steps
            rows: Rows = follower.rows
            self.held.append(steps)
            self.held.append(rows)
            # a number that says how much may be read comes before the address
            self.tables[i].last_slot = published(cython.address(steps.last))
            self.tables[i].steps = published(cython.address(steps.address))
            self.tables[i].n_masks = published(cython.address(rows.size))
            self.tables[i].masks = published(cython.address(rows.address))
            self.tables[i].stops = address_of_stops(rows)
            self.tables[i].n_stops = rows.stops.shape[0]
            self.tables[i].configuration = ENDED if follower.ended else follower.configuration
            self.tables[i].n_bits = 8 * rows.n_bytes
        if self.n_rows <= LOCKED_UP_TO:
            self.look_and_copy(copies, full, refused, n_bytes)
        else:
            with cython.nogil:
                self.look_and_copy(copies, full, refused, n_bytes)

    def look_and_copy(self, copies, full, refused, n_bytes):
        """`look_up_unknown` without the interpreter."""
        self.look_up()
        if copies and self.n_left == 0:
            self.plan_copies(full, refused)
            self.copy(n_bytes)

    def look_up(self):
        """Find the configurations and masks of nodes."""
        left: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        for i in range(self.n_nodes):
            if self.nodes[i].source != 0:
                continue
            of = self.nodes[i].sequence
            configuration = self.nodes[i].configuration
            if configuration == UNKNOWN:
                configuration = (
                    self.tables[of].configuration if self.nodes[i].parent < 0 else self.step_from_parent(i)
                )
                self.nodes[i].configuration = configuration
            if configuration > 0:
                self.nodes[i].source = source_at(
                    self.tables[of].masks, self.tables[of].n_masks, configuration
                )
            left += self.is_left(i)
        self.n_left = left

    def step_from_parent(self, node):
        """The configuration of a node that has a parent, or the value that replaces it."""
        parent = self.nodes[node].parent
        above = self.nodes[parent].configuration
        if above <= 0:
            return UNKNOWN if above == UNKNOWN else BELOW
        of, token = self.nodes[node].sequence, self.nodes[node].token
        if not 0 <= token < self.tables[of].n_bits:
            return REFUSED
        is_stop = is_stop_at(self.tables[of].stops, self.tables[of].n_stops, token)
        if not is_stop:
            after = following_at(self.tables[of].steps, self.tables[of].last_slot, above, token)
            if after >= 0:
                return after  # 0 is `REFUSED`
        source = self.nodes[parent].source
        if source == 0:
            return UNKNOWN
        if not allows(source, token):
            return REFUSED
        return ENDED if is_stop else UNKNOWN

    def plan_copies(self, full, refused):
        """Write for each row what is copied to it."""
        repeats: cython.bint = refused < 0
        is_refused: cython.bint = False
        source: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t
        for row in range(self.n_rows):
            node = self.rows[row].node
            if node == GIVEN:
                continue
            if node == PADDING:
                self.rows[row].source = source if is_refused else full
                continue
            configuration = self.nodes[node].configuration
            if self.nodes[node].parent < 0:
                is_refused = False
            if configuration > 0:
                source = self.nodes[node].source
            elif not repeats:
                source = 0 if configuration == BELOW else refused
            elif configuration == ENDED:
                source = full
            else:
                is_refused = True  # and the row before is copied
            self.rows[row].source = source

    def copy(self, n_bytes):
        """Copy to the rows what `plan_copies` wrote.

        While a row is copied, the beginnings of the next row's pages are prefetched, as in
        `hybrid.classifier.rows.fetch_row`.
        """
        row: cython.Py_ssize_t
        for row in range(self.n_rows):
            if row + 1 < self.n_rows and self.rows[row + 1].source != 0:
                fetch_row(self.rows[row + 1].source, self.rows[row + 1].address, n_bytes)
            if self.rows[row].source != 0:
                copy_row(self.rows[row].source, self.rows[row].address, n_bytes)

    def find_once(self):
        """Compute the masks and the steps of all nodes with known parents. Return whether any became
        known."""
        is_found: cython.bint = False
        i: cython.Py_ssize_t
        for i in range(self.n_nodes):
            node = self.nodes[i]
            follower: CachedSequence = self.followers[node.sequence]
            if node.configuration > 0:
                if node.source == 0:
                    is_found |= source_of(follower.rows, node.configuration) != 0 or follower.mask_at(
                        node.configuration
                    )
            elif node.configuration == UNKNOWN and node.parent >= 0:
                above = self.nodes[node.parent].configuration
                if above > 0:
                    if node.token >= 0 and following(follower.steps, above, node.token) < 0:
                        is_found |= follower.step_of(above, node.token) >= 0
                    else:
                        is_found = True
        return is_found
