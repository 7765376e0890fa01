"""Find what compiles the package: a C compiler and Python's headers; else say what to install.

Used by the Makefile before anything is built:

    python tools/compiler.py FILE

writes FILE with what the shell has to set: nothing where there is a compiler; where only the compiler is
missing, zig's from PyPI, which is installed into this environment. It ends with a sentence and status 1 where
it cannot help.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HEADERS = (
    "Python.h is missing, which compiled modules are built with: install Python's development files "
    "(Debian, Ubuntu: apt install python{version}-dev; Fedora: dnf install python3-devel; others: a Python "
    "from python.org, conda or uv has them), or install a wheel of this package"
)
COMPILER = (
    "there is no C compiler, and none could be installed from PyPI: install one (Debian, Ubuntu: apt install "
    "gcc; Fedora: dnf install gcc; macOS: xcode-select --install; Windows: the Build Tools for Visual Studio)"
)


def has_headers() -> bool:
    """Whether Python's headers are where this Python says."""
    return Path(sysconfig.get_paths()["include"], "Python.h").exists()


def has_compiler() -> bool:
    """Whether the compiler that setuptools would take makes a file of one line."""
    if sys.platform == "win32":
        return True  # setuptools finds it, and says what to install
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(command[0]) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "a.c")
        source.write_text("#include <stdlib.h>\nint answer(void) { return abs(-42); }\n", encoding="utf-8")
        made = subprocess.run([*command, "-c", str(source), "-o", f"{source}.o"], capture_output=True)
    return made.returncode == 0


def has_zig() -> bool:
    """Whether zig's compiler is in this environment, after installing it if need be."""
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "ziglang"]
    return subprocess.run(install, capture_output=True).returncode == 0


def main(target: str) -> str | None:
    """Write what the shell has to set; a sentence where nothing can be built."""
    lines = ""
    if not has_headers():
        return HEADERS.format(version="{}.{}".format(*sys.version_info))
    if not has_compiler():
        if not has_zig():
            return COMPILER
        zig = f"{sys.executable} -m ziglang cc"
        lines = f"export CC='{zig}' LDSHARED='{zig} -shared'\n"
        print("there is no C compiler here: zig's, from PyPI, is taken")
    Path(target).write_text(lines, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
