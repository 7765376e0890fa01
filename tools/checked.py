"""A copy of the code whose compiled modules check every index, in build/checked.

    python tools/checked.py && cd build/checked && python -m pytest -m kernels

What was built there before is built again only where its source has changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TARGET = HERE / "build" / "checked"
FOLDERS = ("adapters", "bench", "equivalence", "hybrid", "tests")
FILES = ("LICENSE", "constraints.txt", "docs/theory.md", "pyproject.toml", "README.md", "setup.py")
BUILT = (".so", ".pyd")


def copy() -> None:
    """Make the copy like the original; what was built in it stays."""
    wanted = {Path(name) for name in FILES}
    for folder in FOLDERS:
        found = (HERE / folder).rglob("*")
        wanted |= {path.relative_to(HERE) for path in found if path.is_file() and path.suffix not in BUILT}
    wanted = {path for path in wanted if "__pycache__" not in path.parts}
    for folder in FOLDERS:
        for path in (TARGET / folder).rglob("*"):
            if path.is_file() and path.suffix not in BUILT and path.relative_to(TARGET) not in wanted:
                path.unlink()
    for path in wanted:
        (TARGET / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(HERE / path, TARGET / path)


if __name__ == "__main__":
    copy()
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    sys.exit(subprocess.run(command, cwd=TARGET, env=os.environ | {"EQUIMASK_CHECKED": "1"}).returncode)
