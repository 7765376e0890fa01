"""Healing prompts that end in the middle of a token: the next tokens spell some bytes again, then the grammar
starts.
"""

from hybrid.healing.matcher import HealingMatcher
from hybrid.healing.prompt import Healed, heal

__all__ = ["Healed", "HealingMatcher", "heal"]
