"""Caching walks from one grammar to the next: see `equivalence.walks.kept.walks`, and `reads`."""

from equivalence.walks.kept.reads import KeptReads
from equivalence.walks.kept.stored import Shelf
from equivalence.walks.kept.walks import KeptWalks

__all__ = ["KeptReads", "KeptWalks", "Shelf"]
