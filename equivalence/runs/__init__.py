"""Runs of byte strings that nothing tells apart: partitions without a look at each token."""

from equivalence.runs.order import ByteOrder, ClassRuns, Members, byte_order, members_of, tokens_of

__all__ = ["ByteOrder", "ClassRuns", "Members", "byte_order", "members_of", "tokens_of"]
