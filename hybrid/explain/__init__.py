"""Say in words what a grammar allows at a place in a text, and why it refuses a text.

The matcher itself always decides what is allowed. The words come from reading the text by the grammar's rules
(docs/explain.md).
"""

from hybrid.explain.explainer import Explainer, TextExplainer
from hybrid.explain.explanation import Expected, Explanation, Refusal
from hybrid.explain.position import explain
from hybrid.explain.refusal import find_refusal

__all__ = ["Expected", "Explainer", "Explanation", "Refusal", "TextExplainer", "explain", "find_refusal"]
