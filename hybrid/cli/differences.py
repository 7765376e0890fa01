"""Printing the differences between a JSON schema and its grammar.

What: `print_differences` lists keywords that are not enforced, and keywords that forbid some valid values.
When: used by ``compile``, ``inspect`` and ``explain``.
Limits: it lists at most `TOP` keywords of each kind.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hybrid.explain.characters import shown
from hybrid.xgrammar.relaxed import Differences

TOP = 8
"""Most keywords of each kind that are listed."""


def print_differences(
    console: Console, found: Differences, n_relaxed: int | None = None, n_narrowed: int | None = None
) -> None:
    """Print the differences.

    Args:
        console: where to print.
        found: the differences to list.
        n_relaxed, n_narrowed: how many there are in all; None if `found` has all of them.
    """
    for listed, count, words in (
        (found.relaxed, n_relaxed, "that are not enforced"),
        (found.narrowed, n_narrowed, "that forbid some valid values"),
    ):
        n_all = len(listed) if count is None else count
        console.print(f"keywords {words}: {n_all:,}", highlight=False)
        for one in listed[:TOP]:
            line = f"  {one.keyword} at {one.pointer or '/'}: {one.reason}"
            console.print(Text(shown(line, 300)))  # names may contain control sequences for terminals
