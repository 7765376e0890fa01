"""Compiled code is refused where its source has been edited since, or where there is none.

Old code, or code a thousand times slower, would run without a sign.

What: every extension is built with the hash of its source and of the declarations that it was compiled with,
and calls `check` when it is imported; `check` computes the hash of what lies beside it now.
When: in a checkout. An installed package has no `setup.py` beside it, and nobody edits it.
Limits: a change of the compiler or its flags is not noticed; `make clean` forgets all that was built.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

PLAIN = "EQUIMASK_PLAIN"
"""Set to 1, modules that are not compiled run as plain Python: a thousand times slower, to look into them."""

HERE = Path(__file__).resolve().parent.parent
_CIMPORT = re.compile(rb"^\s*(?:from cython\.cimports\.|from |cimport )([\w.]+)", re.MULTILINE)


def source_hash(source: Path) -> str:
    """A hash of a compiled module's source, its declarations, and those it imports from other modules.

    Args:
        source: the module's `.py` file.
    """
    files: list[Path] = []
    _collect(source, files)
    made = hashlib.sha256()
    for file in sorted(files):
        made.update(file.relative_to(source.parents[_depth(source)]).as_posix().encode() + b"\0")
        made.update(file.read_bytes() + b"\0")
    return made.hexdigest()[:32]


def _depth(source: Path) -> int:
    """How many folders lie between the root of the code and a source."""
    depth = 0
    while (source.parents[depth] / "__init__.py").exists():
        depth += 1
    return depth


def _collect(file: Path, files: list[Path]) -> None:
    """Add a file, its declarations, and those that they import."""
    if file in files or not file.exists():
        return
    files.append(file)
    root = file.parents[_depth(file)]
    _collect(file.with_suffix(".pxd"), files)
    for name in _CIMPORT.findall(file.read_bytes()):
        declared = root.joinpath(*name.decode().split(".")).with_suffix(".pxd")
        _collect(declared, files)


def check(name: str, built: bytes) -> None:
    """Refuse an extension that was not made from what lies beside it.

    Args:
        name: the module's name.
        built: the hash that it was built with.

    Raises:
        ImportError: the source has changed since.
    """
    if not (HERE / "setup.py").exists():
        return
    source = HERE.joinpath(*name.split(".")).with_suffix(".py")
    if source.exists() and source_hash(source) != built.decode():
        raise ImportError(
            f"{name} was compiled from other source than {source} is now: run `make build` "
            "(or python setup.py build_ext --inplace), or delete the extension beside it"
        )


def is_plain() -> bool:
    """Whether modules that are not compiled were asked to run as plain Python."""
    return os.environ.get(PLAIN, "0") != "0"


def plain(name: str) -> None:
    """Refuse to run a module as plain Python, unless that was asked for.

    Args:
        name: the module's name.

    Raises:
        ImportError: it was not asked for.
    """
    if not is_plain():
        raise ImportError(
            f"{name} is not compiled: in a checkout run `make build` (or setup.py build_ext --inplace), "
            f"an installed package is damaged. {PLAIN}=1 runs it as plain Python, which is slow"
        )
