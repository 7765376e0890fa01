"""Printing the differences between a JSON schema and its grammar.

What: `print_differences` lists keywords that are not enforced, and keywords that forbid some valid values.
When: used by ``compile``, ``inspect`` and ``explain``.
Limits: it lists at most `TOP` keywords of each kind.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hybrid.compiled import CompiledGrammar
from hybrid.explain.characters import shown
from hybrid.xgrammar.relaxed import Differences

TOP = 8
"""Most keywords of each kind that are listed."""


def print_differences(console: Console, found: Differences | CompiledGrammar) -> None:
    """Print the differences, or those of a compiled grammar."""
    for listed, words in (
        (found.relaxed, "that are not enforced"),
        (found.narrowed, "that forbid some valid values"),
    ):
        console.print(f"keywords {words}: {len(listed):,}", highlight=False)
        for one in listed[:TOP]:
            line = f"  {one.keyword} at {one.pointer or '/'}: {one.reason}"
            console.print(Text(shown(line, 300)))  # names may contain control sequences for terminals
