"""An HTML page about a grammar: its token classes, and what it allows in a document (docs/explain.md)."""

from hybrid.pages.facts import Facts, facts_of
from hybrid.pages.page import render

__all__ = ["Facts", "facts_of", "render"]
