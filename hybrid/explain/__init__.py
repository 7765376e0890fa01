"""Say in words what a grammar allows at a place in a text, and why it refuses a text.

The matcher itself always decides what is allowed. The words come from reading the text by the grammar's rules
(docs/explain.md).
"""

from hybrid.explain.explanation import Expected, Explanation, Refusal
from hybrid.explain.position import explain
from hybrid.explain.refusal import find_refusal
from hybrid.explain.words import Wording, Words

__all__ = ["Expected", "Explanation", "Refusal", "Wording", "Words", "explain", "find_refusal"]
