"""What an edge of a byte automaton does: the second column of `equivalence.network.edges.FIELDS`."""

from __future__ import annotations

EMPTY, BYTES, CALL = range(3)
"""It reads nothing; it reads a byte from a to b; it calls rule a (and may skip it if it is nullable, unless
b is 1)."""
