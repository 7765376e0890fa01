"""Import every compiled module of the installed package: what a wheel is tested with, where it was built."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

SUFFIXES = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def main() -> str | None:
    """A sentence where there is none to import."""
    names = []
    for package in ("equivalence", "hybrid"):
        spec = importlib.util.find_spec(package)
        folder = Path(spec.origin).parent if spec is not None and spec.origin else Path()
        for path in sorted(folder.rglob("*")):
            suffix = next((one for one in SUFFIXES if path.name.endswith(one)), None)
            if suffix:
                parts = path.relative_to(folder.parent).parts
                names.append(".".join((*parts[:-1], parts[-1].removesuffix(suffix))))
    for name in names:
        importlib.import_module(name)
    print(f"{len(names)} compiled modules were imported")
    return None if names else "no compiled module is installed"


if __name__ == "__main__":
    sys.exit(main())
