"""Texts that begin in the middle of a token: bytes that have to be spelled again, then a grammar."""

from hybrid.healing.heal import Healed, heal
from hybrid.healing.matcher import HealingMatcher

__all__ = ["Healed", "HealingMatcher", "heal"]
