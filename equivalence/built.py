"""Compiled code is refused where its source has been edited since, or where there is none.

Old code would run without a sign.

What: every extension is built with the hash of its source and of the declarations that it was compiled with,
and calls `check` when it is imported; `check` computes the hash of what lies beside it now.
When: in a checkout. An installed package has no `setup.py` beside it, and nobody edits it.
Limits: a change of the compiler or its flags is not noticed; `make clean` forgets all that was built.
"""

from __future__ import annotations

import hashlib
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

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


def require() -> None:
    """Refuse to go on where nothing is compiled: modules would fail one by one, and say less.

    Raises:
        ImportError: there are no extensions.
    """
    names = (f"interning{suffix}" for suffix in EXTENSION_SUFFIXES)
    if not any((HERE / "equivalence" / "arrays" / name).exists() for name in names):
        raise ImportError(
            "equimask's compiled modules are missing: in a checkout run `make build` (or python setup.py "
            "build_ext --inplace); an installed package is damaged"
        )
