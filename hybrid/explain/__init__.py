"""What a grammar allows at a place of a text, and why it refuses one, in words and not in numbers.

Whether and what is allowed is always asked of the matcher itself; names come from reading the grammar's text
beside it (docs/explain.md).
"""

from hybrid.explain.explanation import Expected, Explanation, Refusal
from hybrid.explain.position import explain
from hybrid.explain.refusal import find_refusal
from hybrid.explain.words import Wording, Words

__all__ = ["Expected", "Explanation", "Refusal", "Wording", "Words", "explain", "find_refusal"]
