"""A disk cache of compiled grammars: shared between processes, checked before use, bounded in bytes.

What: `DiskCache` implements the argument `cache_dir` of `GrammarCompiler`. There is one file for each
combination of a grammar, its options, the vocabulary and everything else that the result depends on.
When: for short-lived processes, and for restarts of a server; see docs/caches.md.
Limits: only grammars on strategy "classifier" are written (docs/artifacts.md). Each process compiles grammars
on other strategies again. Digests detect damage, not malice: trust the folder as you trust the code.

An entry consists of 16 bytes of magic, the 32 bytes of its key, and an artefact with its own digest. The key
is inside, so that a file with the wrong name is not used. Entries are written atomically and never changed,
so any number of processes may share the folder, and reading needs no lock. If several processes miss the same
grammar at once, one compiles it and the others wait (`hybrid.compile.single_flight`). If they do not wait,
each compiles it, and one file remains. If the file system fails, there is a warning and no caching.

There is no index file or database, because it would need a lock, and repair after a process was killed while
it held the lock. The time of last use is the file's modification time, which every file system has.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from equivalence import ArtifactError, HybridError, StrategyError, Vocabulary, forks
from equivalence.arguments import integer_from, path_of
from equivalence.array_files import read_whole, write_whole
from hybrid.compiled import CompiledGrammar
from hybrid.files import from_bytes, to_bytes
from hybrid.files.container import VERSION
from hybrid.values.budget import Budget
from hybrid.values.version import __version__

DEFAULT_DISK_BYTES = 2**30

MAGIC = b"equimask entry1\n"
KEY_BYTES = 32

ENTRY = re.compile(r"compiled-[0-9a-f]{64}\.equimask")
PARTIAL = re.compile(ENTRY.pattern + r"\.[0-9]+\.[0-9a-f]+\.partial")
"""Files that `write_whole` leaves if the process is killed."""

LOCK = re.compile(ENTRY.pattern + r"\.lock")
"""Lock files of `hybrid.compile.single_flight`. Only files with these three patterns are ever deleted."""

PARTIAL_SECONDS = 3600
"""Partial files and locks that are older than this are not in use any more."""

ROOM = 10
"""When a folder is full, this fraction (1 / ROOM) is freed, so that not every new entry lists the folder."""

UNCOUNTED = 16
"""The folder is listed again after this process has written this fraction (1 / UNCOUNTED) of the limit. Other
processes write, too, and each may exceed the limit by that much."""

logger = logging.getLogger(__name__)


class DiskCache:
    """The entries of one compiler in a folder, which it may share with other compilers and processes.

    Args:
        folder: the folder; it is created when the first entry is written.
        limit_bytes: the most bytes that all entries may take; -1 means 1 GiB.
        vocabulary: the vocabulary that grammars are compiled for.
        budget: limits of the compilations, and of the grammars that are read.
        settings: the other settings that results depend on.
        count: called with the name of each event: "disk_hits", "disk_evictions", "disk_writes",
            "disk_damaged", "disk_failures", "disk_shared".

    Raises:
        HybridError: the folder or the limit is not valid.
    """

    def __init__(
        self, folder: str | os.PathLike[str], limit_bytes: int, vocabulary: Vocabulary, budget: Budget,
        settings: str, count: Callable[[str], None],
    ) -> None:  # fmt: skip
        limit_bytes = integer_from(-1, limit_bytes, "cache_dir_limit_bytes", HybridError)
        if limit_bytes == 0:
            raise HybridError(
                f"cache_dir_limit_bytes must be positive, or -1 for {DEFAULT_DISK_BYTES}, but is 0"
            )
        # absolute, because threads write there after the program may have changed its working folder
        self.folder = Path(os.path.abspath(path_of(folder, "cache_dir", HybridError)))
        self.limit_bytes = DEFAULT_DISK_BYTES if limit_bytes == -1 else limit_bytes
        self._vocabulary = vocabulary
        self._budget = budget
        self._settings = settings
        self._count = count
        self._is_listing = False  # whether a thread lists the folder
        self._lock = forks.registered(threading.Lock(), forks.Order.BRIEF)  # of all these
        self._bytes = 0
        self._uncounted = -1  # bytes written since the folder was listed; -1 if it never was
        self._warned = False
        forks.in_child(self._in_child)

    def _in_child(self) -> None:
        """A forked process does not have the thread that lists the folder."""
        self._is_listing = False

    def entry(self, key: Any) -> bytes | None:
        """The digest that identifies a request; None if its key has no meaning in other processes."""
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

    def state(self, entry: bytes) -> tuple[int, ...] | None:
        """What changes if the file of an entry is written again; None if there is no file."""
        try:
            found = self.path(entry).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def load(self, entry: bytes, found_as: str = "disk_hits") -> CompiledGrammar | None:
        """The compiled grammar of an entry; None if there is no usable entry.

        Args:
            entry: the digest of the entry.
            found_as: the event to count if there is one.
        """
        path = self.path(entry)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{path.name} is not a file")
            if found.st_size > self.limit_bytes:
                raise ArtifactError(f"it has {found.st_size} bytes, more than any entry can have")
            data = read_whole(path, self.limit_bytes)
            begin = len(MAGIC) + KEY_BYTES
            if data[: len(MAGIC)] != MAGIC:
                raise ArtifactError("it is not an entry of this cache")
            if data[len(MAGIC) : begin] != entry:
                raise ArtifactError("it is the entry of another call, or damaged")
            compiled = from_bytes(data[begin:], self._vocabulary, budget=self._budget)
            self._count(found_as)
        except ArtifactError as error:
            logger.warning("%s cannot be used and is compiled again: %s", path.name, error)
            with contextlib.suppress(OSError):
                path.unlink()  # so that it is written again
            self._count("disk_damaged")
            return None
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._failed("be read", error)
            return None
        # the file may have been deleted meanwhile, and a read-only folder is not an error
        with contextlib.suppress(OSError):
            os.utime(path)
        return compiled

    def keep(self, entry: bytes, compiled: CompiledGrammar) -> None:
        """Write a compiled grammar, if it can be written, and read with the same budget and limit."""
        try:
            data = to_bytes(compiled, self._budget)
        except (ArtifactError, StrategyError) as error:
            logger.debug("a compiled grammar is not written: %s", error)
            return
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
            is_due = self._uncounted < 0
            if not is_due:
                self._uncounted += size
                self._bytes += size
                is_due = self._uncounted > self.limit_bytes // UNCOUNTED or self._bytes > self.limit_bytes
        if is_due:
            self._list_folder(path.name)

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries when the folder was last listed, and of those that this process has written
        since."""
        if self._uncounted < 0:
            self._list_folder("")
        return self._bytes

    def _list_folder(self, newest: str) -> None:
        """List the folder; if it is too large, delete the least recently used entries, but not the newest."""
        mine = False
        try:
            with self._lock:
                if self._is_listing:
                    return  # another thread is doing it
                mine = self._is_listing = True
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
            pass  # the folder does not exist yet
        except OSError as error:
            self._failed("be listed", error)
        finally:
            if mine:
                self._is_listing = False

    def _entries(self) -> tuple[list[tuple[int, str, int]], int]:
        """The last use, name and size of all entries, and the bytes of entries and partial files."""
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
        """Delete a file; return whether it is gone. Another process may have deleted it."""
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
        """Count a failure of the file system, and warn once."""
        self._count("disk_failures")
        with self._lock:
            if self._warned:
                return
            self._warned = True
        logger.warning(
            "compiled grammars in %s cannot %s (%s), so grammars are compiled again (this warning "
            "appears only once)",
            self.folder, what, error,
        )  # fmt: skip


def _portable(part: Any) -> Any:
    """A part of a key in a form for JSON. A model class is represented by its schema, as in XGrammar.

    Raises:
        TypeError: another type.
    """
    if part is None or isinstance(part, (str, int, float)):
        return part
    if isinstance(part, tuple):
        return [_portable(one) for one in part]
    schema = getattr(part, "model_json_schema", None)
    if not isinstance(part, type) or schema is None:
        raise TypeError(f"{type(part).__name__} cannot be used in other processes")
    try:
        return {"schema": json.dumps(schema())}
    except Exception as error:  # the caller's code; compiling reports the error
        raise TypeError(str(error)) from error


@lru_cache(maxsize=1)
def _versions() -> list[Any]:
    """The versions that compiled grammars depend on: of parsers, of this package, of the file format, and of
    Python, whose regular expressions and Unicode tables decide what patterns match."""
    python = list(sys.version_info[:2])
    return [metadata.version("xgrammar"), metadata.version("lark"), __version__, VERSION, python]
