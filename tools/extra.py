"""The requirements of one of the project's extras, a line each, for `pip install --requirement`.

    python tools/extra.py test

Read from the installed project: `pip install --editable '.[test]'` would compile all modules a second time.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata


def requirements(extra: str) -> list[str]:
    """The requirements of an extra, without the part of their markers that names it."""
    named = re.compile(rf"""( and|;) *extra *== *["']{re.escape(extra)}["']""")
    given = metadata.requires("equimask") or []
    return [named.sub("", one) for one in given if named.search(one)]


if __name__ == "__main__":
    found = requirements(sys.argv[1])
    if not found:
        sys.exit(f"the project has no extra {sys.argv[1]!r}")
    print("\n".join(found))
