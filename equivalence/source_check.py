"""Refuses compiled code that is missing, or older than its source.

Otherwise, old code would run without any sign.

What: every extension contains the hash of its source and of the declarations with which it was compiled. When
it is imported, it calls `check_source` (`source_check.pxd`), and so `check`, which computes the hash of the
files beside it.
When: in a checkout. An installed package has no `setup.py` beside it, and nobody edits it.
Limits: a change of the compiler or its flags is not noticed; `make clean` removes everything that was built.
"""

from __future__ import annotations

import hashlib
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
_CIMPORT = re.compile(
    rb"^\s*(?:from cython\.cimports\.|from |cimport )([\w.]+)(?: c?import (\w+))?", re.MULTILINE
)
"""A module, or a package and the module that is imported from it."""

DIMENSIONS = 4
"""Dimensions for which a compiled view of an array has room. Ours have at most three, and Cython wants one
more. With Cython's eight, a view takes 208 bytes in place of 112. All modules must agree, so it is part of
the hash."""


def source_hash(source: Path) -> str:
    """A hash of a compiled module's source, its declarations, and the declarations of other modules that it
    imports.

    Args:
        source: the module's `.py` file.
    """
    files: list[Path] = []
    _collect(source, files)
    made = hashlib.sha256(b"%d dimensions" % DIMENSIONS)
    for file in sorted(files):
        made.update(file.relative_to(source.parents[_depth(source)]).as_posix().encode() + b"\0")
        made.update(file.read_bytes() + b"\0")
    return made.hexdigest()[:32]


def _depth(source: Path) -> int:
    """Number of folders between the root of the code and a source."""
    depth = 0
    while (source.parents[depth] / "__init__.py").exists():
        depth += 1
    return depth


def _collect(file: Path, files: list[Path]) -> None:
    """Add a file, its declarations, and the declarations that they import."""
    if file in files or not file.exists():
        return
    files.append(file)
    root = file.parents[_depth(file)]
    _collect(file.with_suffix(".pxd"), files)
    for name, member in _CIMPORT.findall(file.read_bytes()):
        declared = root.joinpath(*name.decode().split("."))
        _collect(declared.with_suffix(".pxd"), files)
        _collect(declared / f"{member.decode()}.pxd", files)


def check(name: str, built: bytes) -> None:
    """Refuse an extension that was made from other files than those beside it.

    Args:
        name: the module's name.
        built: the hash in the extension.

    Raises:
        ImportError: the source has changed since.
    """
    if not (HERE / "setup.py").exists():
        return
    source = HERE.joinpath(*name.split(".")).with_suffix(".py")
    if source.exists() and source_hash(source) != built.decode():
        raise ImportError(
            f"{source} has changed since {name} was compiled: run `make build` (or python setup.py "
            "build_ext --inplace), or delete the extension next to it"
        )


def require() -> None:
    """Refuse to continue if nothing is compiled. Otherwise, single modules would fail, with messages that say
    less.

    Raises:
        ImportError: there are no extensions.
    """
    names = (f"interning{suffix}" for suffix in EXTENSION_SUFFIXES)
    if not any((HERE / "equivalence" / "arrays" / name).exists() for name in names):
        raise ImportError(
            "equimask's compiled modules are missing: in a checkout run `make build` (or python setup.py "
            "build_ext --inplace); an installed package is damaged"
        )
