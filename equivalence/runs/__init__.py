"""Runs: tokens that are neighbours in byte order and that nothing distinguishes; partitions are made of
runs.
"""

from equivalence.runs.order import ByteOrder, ClassRuns, Members, byte_order, members_of, tokens_of

__all__ = ["ByteOrder", "ClassRuns", "Members", "byte_order", "members_of", "tokens_of"]
