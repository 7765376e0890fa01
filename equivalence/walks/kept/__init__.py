"""Walks that are kept from one grammar to the next: see `equivalence.walks.kept.walks`."""

from equivalence.walks.kept.stored import Shelf
from equivalence.walks.kept.walks import KeptWalks

__all__ = ["KeptWalks", "Shelf"]
