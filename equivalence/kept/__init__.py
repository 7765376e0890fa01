"""Walks that are kept from one grammar to the next: see `equivalence.kept.walks`."""

from equivalence.kept.stored import Shelf
from equivalence.kept.walks import KeptWalks

__all__ = ["KeptWalks", "Shelf"]
