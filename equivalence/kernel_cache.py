"""Where compiled kernels are kept by a user who may write neither to the installation nor at home.

What: numba keeps them beside the code, else in the user's cache; where it can write to neither it refuses to
import them. `settle` gives it a private folder then, with links to the kernels that are beside the code.
When: when the package is imported, before the first kernel is.
Limits: POSIX. The folder is among the temporary ones, which a new container may begin without: an image
should bring kernels that were compiled beside the code (docs/processes.md).

Code is read from the folder, so nobody else may have put it there: it is made for its owner alone, or taken
again if it belongs to the user and is closed to all others; else a new one is made, for this process.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from equivalence.errors import HybridError

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGES = ("equivalence", "hybrid")

logger = logging.getLogger(__name__)


def settle() -> None:
    """Let numba have a folder that it can write to.

    Raises:
        HybridError: there is none, nor can one be made.
    """
    if os.name != "posix" or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return
    asked = os.environ.get(VARIABLE, "")
    here = Path(__file__).parent
    if any(_is_writable(folder) for folder in (asked, here / "__pycache__", _at_home()) if folder):
        return
    folder = _private_folder()
    for package in PACKAGES:
        for source in (here.parent / package).rglob("_kernels.py"):
            with contextlib.suppress(OSError):  # those that have no link are compiled
                _link(source.parent, asked, folder)
    os.environ[VARIABLE] = str(folder)
    config = sys.modules.get("numba.core.config")
    if config is not None:  # somebody has imported it already
        config.reload_config()


def _is_writable(folder: str | Path) -> bool:
    """As numba finds it out."""
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _at_home() -> str:
    """The folder that numba takes there."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/numba")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")


def _private_folder() -> Path:
    try:
        parent = Path(tempfile.gettempdir())
        mode = parent.stat().st_mode
        if mode & 0o022 and not mode & stat.S_ISVTX:
            raise OSError(f"others may replace what is in {parent}")
        folder = parent / f"equimask-kernels-{os.geteuid()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        if _is_private(folder):
            return folder
        logger.warning("%s is open to others; kernels are compiled for this process alone", folder)
        folder = Path(tempfile.mkdtemp(prefix="equimask-kernels-"))
    except OSError as error:
        raise HybridError(
            f"there is no folder for compiled kernels ({error}): neither the installation nor the user's "
            f"cache can be written to; set {VARIABLE} to one that can"
        ) from error
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked one ends too
        shutil.rmtree(folder, ignore_errors=True)


def _is_private(folder: Path) -> bool:
    """Whether nobody else can have put anything there."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def name_of(code: Path) -> str:
    """The name that numba gives to the kernels of a folder of code, in a folder that it is told."""
    return f"{code.name}_{hashlib.sha1(os.fsencode(code.absolute())).hexdigest()}"


def _link(code: Path, asked: str, folder: Path) -> None:
    """Link the kernels that somebody has compiled for a folder of code: those asked for, or beside it."""
    name = name_of(code)
    (folder / name).mkdir(0o700, exist_ok=True)
    for known in (Path(asked, name) if asked else None, code / "__pycache__"):
        for index in known.glob("*.nbi") if known else ():
            target = folder / name / index.name
            if os.path.lexists(target) and not target.is_symlink():
                continue  # this user has compiled more, and numbered it
            for file in (index, *index.parent.glob(f"{index.stem}.*.nbc")):
                with contextlib.suppress(FileExistsError):
                    os.symlink(file, folder / name / file.name)
