"""Compiled grammars in a folder: found again by the next process, checked before use, bounded in bytes.

What: `DiskCache` behind the keyword ``cache_dir`` of `GrammarCompiler`: one file for each grammar, its
options, the vocabulary and everything else that the result depends on.
When: many short-lived processes, or restarts of a server; see docs/caches.md.
Limits: strategy "classifier" only, as only that is written to files (docs/artifacts.md): grammars that come
out on another strategy are compiled again in each process. Digests find damage, not malice: the folder has
to be as trustworthy as the code.

An entry is 16 bytes of magic, the 32 bytes of its key, and an artefact, which has a digest of its own. That
the key stands inside keeps a file under another's name from being taken for it. Entries are written whole and
never changed, so that any number of processes may share the folder: reading takes no lock. Of those that miss
the same grammar at once one compiles it and the others wait (`hybrid.compile.single_flight`); where they do
not, both compile it, and one file stays. A file system that fails costs the caching and a warning.

An index file or a database was not made: each would need a lock, and would have to be mended where a process
was ended while it held it. The clock of last use is the time of modification, which every file system has.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from equivalence import ArtifactError, HybridError, Vocabulary, forking
from equivalence.deadline import Deadline
from equivalence.store import read_whole, write_whole
from hybrid.api.compiled import CompiledGrammar
from hybrid.compile import single_flight
from hybrid.compile.strategy import Budget
from hybrid.files import can_be_written, from_bytes, to_bytes
from hybrid.files.container import VERSION

DEFAULT_DISK_BYTES = 2**30

MAGIC = b"equimask entry1\n"
KEY_BYTES = 32

ENTRY = re.compile(r"compiled-[0-9a-f]{64}\.equimask")
PARTIAL = re.compile(ENTRY.pattern + r"\.[0-9]+\.[0-9a-f]+\.partial")
"""What `write_whole` leaves where the process was ended."""

LOCK = re.compile(ENTRY.pattern + r"\.lock")
"""What `hybrid.compile.single_flight` leaves there. No other names than these three are ever deleted."""

PARTIAL_SECONDS = 3600
"""A partial file of this age belongs to no process that still writes it, nor a lock to one that holds it."""

ROOM = 10
"""A full folder is emptied by one part in so many, so that not every new entry looks at all the others."""

UNCOUNTED = 16
"""The folder is looked at again once this process has written one part of the bound in so many: others write
to it too, and together they may exceed it by that much each."""

CARRIED = {
    "reason", "vocabulary", "grammar", "classes", "features", "classifier", "otherwise", "timings", "schema",
    "settling",
}  # fmt: skip
"""What an artefact has of a compiled grammar. A grammar that says anything else of itself is not written:
what comes back has to say the same."""

logger = logging.getLogger(__name__)


class DiskCache:
    """The entries of one compiler in a folder that it may share with any others.

    Args:
        folder: made when the first entry is written.
        limit_bytes: bound of the bytes of all entries; -1 is 1 GiB.
        vocabulary: the vocabulary that grammars are compiled for.
        budget: bounds of the compilations, and of what is read.
        settings: what else tells results apart: the strategy and the like, as JSON has it.
        count: told the name of each event: "disk_hits", "disk_misses", "disk_evictions", "disk_writes",
            "disk_damaged", "disk_failures", "disk_shared", "disk_overdue".

    Raises:
        HybridError: a folder or a bound that is none.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        limit_bytes: int,
        vocabulary: Vocabulary,
        budget: Budget,
        settings: dict[str, Any],
        count: Callable[[str], None],
    ) -> None:
        given: tuple[object, object] = (folder, limit_bytes)  # whatever the caller gave
        if not isinstance(given[0], (str, os.PathLike)) or not os.fspath(folder):
            raise HybridError(f"cache_dir is {folder!r}, allowed are None and the path of a folder")
        if isinstance(given[1], bool) or not isinstance(given[1], int) or (given[1] < 1 and given[1] != -1):
            raise HybridError(
                f"cache_dir_limit_bytes is {limit_bytes!r}, allowed are an integer of at least 1, and -1 "
                f"for {DEFAULT_DISK_BYTES}"
            )
        self.folder = Path(os.path.abspath(folder))  # threads write there after the program has moved
        self.limit_bytes = DEFAULT_DISK_BYTES if limit_bytes == -1 else limit_bytes
        self._vocabulary = vocabulary
        self._budget = budget
        self._settings = settings
        self._count = count
        self._is_looking = False  # a thread: at the folder
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)  # of all these
        self._bytes = 0
        self._uncounted = -1  # bytes written since the folder was looked at; -1 before that
        self._warned = False
        forking.in_child(self._in_child)

    def _in_child(self) -> None:
        """The thread that looks is not there."""
        self._is_looking = False

    def entry(self, key: Any) -> bytes | None:
        """The digest that names what a call asks for; None for one that only this process understands."""
        try:
            written = json.dumps([_portable(key), self._settings, *_versions()])
        except (TypeError, ValueError, RecursionError):
            return None
        digest = hashlib.blake2b(self._vocabulary.fingerprint.encode(), digest_size=KEY_BYTES)
        digest.update(written.encode())
        return digest.digest()

    def path(self, entry: bytes) -> Path:
        """The file of an entry."""
        return self.folder / f"compiled-{entry.hex()}.equimask"

    @contextlib.contextmanager
    def alone(self, entry: bytes, deadline: Deadline, seconds: float | None) -> Iterator[single_flight.Turn]:
        """Wait until no other process makes an entry, and keep others from it for as long as this lasts.

        Args:
            entry: the digest that names it.
            deadline, seconds: of the call, as `single_flight.alone` has them.

        Raises:
            BudgetExceeded: the deadline was over, or cancelled, meanwhile.
        """
        with single_flight.alone(self.path(entry), deadline, seconds) as turn:
            if turn == "overdue":
                self._count("disk_overdue")
            yield turn

    def claimed(self, entry: bytes) -> contextlib.AbstractContextManager[bool]:
        """Whether this process should make an entry: there is none, and no other process makes it."""
        return single_flight.claimed(self.path(entry))

    def load_again(self, entry: bytes) -> CompiledGrammar | None:
        """As `load`, of an entry that was missed and that another process may have made since."""
        return self.load(entry, "disk_shared") if os.path.isfile(self.path(entry)) else None

    def load(self, entry: bytes, found_as: str = "disk_hits") -> CompiledGrammar | None:
        """The compiled grammar of an entry; None where there is none that can be used.

        Args:
            entry: the digest that names it.
            found_as: the event to count where there is one.
        """
        path = self.path(entry)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{path.name} is no file")
            if found.st_size > self.limit_bytes:
                raise ArtifactError(f"it has {found.st_size} bytes, more than any entry")
            compiled = self._read(path, entry)
            self._count(found_as)
        except ArtifactError as error:
            logger.warning("%s is not used and is built anew: %s", path.name, error)
            with contextlib.suppress(OSError):
                path.unlink()  # so that it is written again
            self._count("disk_damaged")
            self._count("disk_misses")
            return None
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._failed("be read", error)
            self._count("disk_misses")
            return None
        # somebody may have deleted it since, and a folder that is meant to be read only is none that fails
        with contextlib.suppress(OSError):
            os.utime(path)
        return compiled

    def keep(self, entry: bytes, compiled: CompiledGrammar) -> None:
        """Write a compiled grammar, if it is one that can be written; leave others be."""
        if not can_be_written(compiled) or _says_more(compiled):
            return
        data = to_bytes(compiled)
        size = len(MAGIC) + KEY_BYTES + len(data)
        if size > self.limit_bytes:
            return
        path = self.path(entry)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, MAGIC, entry, data)
        except OSError as error:
            self._failed("be written", error)
            return
        self._count("disk_writes")
        with self._lock:
            is_counted = self._uncounted >= 0
            if is_counted:
                self._uncounted += size
                self._bytes += size
            is_counted = is_counted and self._uncounted <= self.limit_bytes // UNCOUNTED
            is_counted = is_counted and self._bytes <= self.limit_bytes
        if not is_counted:
            self._look(path.name)

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries at the last look at the folder, and of those this process wrote since."""
        if self._uncounted < 0:
            self._look("")
        return self._bytes

    def _read(self, path: Path, entry: bytes) -> CompiledGrammar:
        data = read_whole(path, self.limit_bytes)
        begin = len(MAGIC) + KEY_BYTES
        if data[: len(MAGIC)] != MAGIC:
            raise ArtifactError("it does not begin as an entry does")
        if data[len(MAGIC) : begin] != entry:
            raise ArtifactError("it is the entry of another key, or its key is damaged")
        return from_bytes(data[begin:], self._vocabulary, budget=self._budget)

    def _look(self, newest: str) -> None:
        """Add up the entries and, where they are too many, delete the least recently used but the newest."""
        mine = False
        try:
            with self._lock:
                if self._is_looking:
                    return  # another thread is at it
                mine = self._is_looking = True
            entries, total = self._entries()
            if total > self.limit_bytes:
                least = self.limit_bytes - self.limit_bytes // ROOM
                for _, name, size in sorted(entries):
                    if total <= least:
                        break
                    if name != newest and self._delete(name):
                        total -= size
            with self._lock:
                self._bytes, self._uncounted = total, 0
        except FileNotFoundError:
            pass  # there is no folder yet
        except OSError as error:
            self._failed("be listed", error)
        finally:
            if mine:
                self._is_looking = False

    def _entries(self) -> tuple[list[tuple[int, str, int]], int]:
        """Last use, name and size of all entries, and the bytes of entries and of what becomes one."""
        entries, total = [], 0
        oldest = time.time() - PARTIAL_SECONDS
        with os.scandir(self.folder) as listed:
            for file in listed:
                partial = PARTIAL.fullmatch(file.name) or LOCK.fullmatch(file.name)
                if not partial and not ENTRY.fullmatch(file.name):
                    continue
                try:
                    found = file.stat(follow_symlinks=False)
                except OSError:
                    continue  # deleted meanwhile
                if not stat.S_ISREG(found.st_mode):
                    continue
                if not partial:
                    entries.append((found.st_mtime_ns, file.name, found.st_size))
                elif found.st_mtime < oldest and self._delete(file.name):
                    continue
                total += found.st_size
        return entries, total

    def _delete(self, name: str) -> bool:
        """Whether a file is gone; who else deleted it does not matter."""
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return True
        except OSError as error:
            self._failed("be deleted", error)
            return False
        if ENTRY.fullmatch(name):
            self._count("disk_evictions")
        return True

    def _failed(self, what: str, error: OSError) -> None:
        """A file system that fails: one warning, and compiled grammars are not kept."""
        self._count("disk_failures")
        with self._lock:
            if self._warned:
                return
            self._warned = True
        logger.warning(
            "compiled grammars in %s cannot %s (%s); what is not found is compiled, and nothing more is said",
            self.folder, what, error,
        )  # fmt: skip


def _portable(part: Any) -> Any:
    """A part of a key as JSON has it; a model class by its schema, which is what XGrammar takes of it.

    Raises:
        TypeError: something else.
    """
    if part is None or isinstance(part, (str, int, float)):
        return part
    if isinstance(part, tuple):
        return [_portable(one) for one in part]
    schema = getattr(part, "model_json_schema", None)
    if not isinstance(part, type) or schema is None:
        raise TypeError(f"{type(part).__name__} is known to this process only")
    try:
        return {"schema": json.dumps(schema())}
    except Exception as error:  # it is the caller's code, and compiling says what is wrong
        raise TypeError(str(error)) from error


@lru_cache(maxsize=1)
def _versions() -> list[Any]:
    """What else compiled grammars depend on: who parsed them, who compiled them, and how they are written."""
    from hybrid import __version__  # which imports this module

    return [metadata.version("xgrammar"), metadata.version("lark"), __version__, VERSION]


def _says_more(compiled: CompiledGrammar) -> bool:
    return any(
        field.name not in CARRIED and getattr(compiled, field.name) != field.default
        for field in fields(compiled)
    )
