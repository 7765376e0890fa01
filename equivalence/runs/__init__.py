"""Runs: neighbours in byte order that nothing distinguishes. Partitions of a vocabulary consist of runs."""

from equivalence.runs.order import ByteOrder, ClassRuns, Members, byte_order, members_of, tokens_of

__all__ = ["ByteOrder", "ClassRuns", "Members", "byte_order", "members_of", "tokens_of"]
