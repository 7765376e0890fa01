"""What the command line prints of the differences between a JSON schema and its grammar.

What: `print_differences` lists keywords that are not enforced, and those under which valid values cannot be
written.
When: by ``compile``, ``inspect`` and ``explain``.
Limits: `TOP` keywords of each kind.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hybrid.explain.characters import shown
from hybrid.xgrammar.relaxed import Differences

TOP = 8
"""Keywords of each kind that are listed."""


def print_differences(
    console: Console, found: Differences, n_relaxed: int | None = None, n_narrowed: int | None = None
) -> None:
    """Print them.

    Args:
        console: where.
        found: what is listed.
        n_relaxed, n_narrowed: how many there are; None: as many as are listed.
    """
    for listed, count, words in (
        (found.relaxed, n_relaxed, "that are not enforced"),
        (found.narrowed, n_narrowed, "that forbid valid values"),
    ):
        n_all = len(listed) if count is None else count
        console.print(f"keywords {words}: {n_all:,}", highlight=False)
        for one in listed[:TOP]:
            line = f"  {one.keyword} at {one.pointer or '/'}: {one.reason}"
            console.print(Text(shown(line, 300)))  # terminals obey what names may hold
