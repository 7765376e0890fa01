"""One grammar as a page to look at: what it does to a vocabulary, and to a document (docs/explain.md)."""

from hybrid.pages.facts import Facts, facts_of
from hybrid.pages.page import render

__all__ = ["Facts", "facts_of", "render"]
