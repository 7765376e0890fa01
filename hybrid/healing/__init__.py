"""Healing prompts that end in the middle of a token: the next tokens spell some bytes again, then the grammar
starts.
"""

from hybrid.healing.heal import Healed, heal
from hybrid.healing.matcher import HealingMatcher

__all__ = ["Healed", "HealingMatcher", "heal"]
