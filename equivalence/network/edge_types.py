"""What an edge of a byte automaton does: the second column of `equivalence.network.edges.FIELDS`."""

from __future__ import annotations

EMPTY, BYTES, CALL = range(3)
"""Nothing is read; a byte from a to b is; rule a is called (and skipped if it is nullable, unless b is 1)."""
