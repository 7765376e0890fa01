"""The metrics of this process in a folder, for another process that serves those of all.

What: `Publisher` writes them every few seconds, in the format of prometheus_client's multi-process mode.
prometheus_client's `MultiProcessCollector` adds up the files in the folder. `publish` makes one publisher for
each folder.
When: in engines that compile in another process than the one that answers ``/metrics``.
Limits: numbers may be `SECONDS` old. A forked process publishes nothing until it calls `publish`. When a
process ends, its counters stay, so that sums never fall, and its gauges are removed. Gauges of a process that
was killed stay until the folder is emptied.

A file is written completely and then renamed. prometheus_client maps its own files into memory instead. Then
a full disk ends the process, and an environment variable must be set before the import.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import struct
import threading
from collections.abc import Iterable
from pathlib import Path

from equivalence import forks
from equivalence.arguments import path_of
from equivalence.errors import ArgumentError
from hybrid.compile import shutdown
from hybrid.metrics.families import FAMILIES, Family, Sample, current_counts, record_schemas, samples

SECONDS = 5.0
"""Time between two writes: a third of the time between two scrapes of Prometheus."""

EXIT_SECONDS = 1.0
"""How long the end of the program waits for a file that is being written."""

logger = logging.getLogger(__name__)


class Publisher:
    """Writes the metrics of this process to a folder, from now on until it is closed.

    Args:
        folder: an existing folder, which the scraped process passes to prometheus_client's
            `MultiProcessCollector`.
        seconds: time between two writes.

    Raises:
        ArgumentError: `folder` is not a path.
    """

    def __init__(self, folder: str | os.PathLike[str], seconds: float = SECONDS) -> None:
        self.folder = Path(os.path.abspath(path_of(folder, "folder")))
        self._seconds = seconds
        self._process = os.getpid()
        self._warned = False
        self._ended = threading.Event()
        record_schemas()
        self.write()
        self._thread = threading.Thread(target=self._work, name="equimask-metrics", daemon=True)
        self._thread.start()
        shutdown.at_exit(self.close)

    @property
    def is_closed(self) -> bool:
        """Whether the publisher has stopped writing."""
        return self._ended.is_set()

    def write(self) -> None:
        """Write all metrics with their present values. Only the first error of the file system is logged."""
        if not self.folder.is_dir():
            return  # the process that made the folder has ended
        found = current_counts()
        files: dict[str, list[tuple[Family, Sample]]] = {}
        for family in FAMILIES:
            rows = files.setdefault(self._name(family), [])
            rows += [(family, sample) for sample in samples(family, found)]
        try:
            for name, rows in files.items():
                self._replace(name, encoded(rows))
        except OSError as error:
            if not self._warned:
                logger.warning("metrics cannot be written to %s: %s", self.folder, error)
            self._warned = True

    def close(self) -> None:
        """Write once more, stop, and remove the gauges, which mean nothing after the process has ended."""
        if self._process == os.getpid():
            self._ended.set()
            self._thread.join(EXIT_SECONDS)

    def _work(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ended.wait(self._seconds)
            try:
                self.write()
            except Exception:
                logger.exception("metrics could not be written")
        for family in FAMILIES:
            if family.kind == "gauge":
                with contextlib.suppress(OSError):
                    (self.folder / self._name(family)).unlink()

    def _name(self, family: Family) -> str:
        """Return the name of a metric's file: its kind, how gauges of processes are combined, and the
        process.

        prometheus_client names its own files of this process by the process number alone.
        """
        kind = f"gauge_live{family.together}" if family.kind == "gauge" else family.kind
        return f"{kind}_equimask-{self._process}.db"

    def _replace(self, name: str, data: bytes) -> None:
        partial = self.folder / f"{name}.{threading.get_ident()}.partial"
        partial.write_bytes(data)
        os.replace(partial, self.folder / name)


def encoded(rows: Iterable[tuple[Family, Sample]]) -> bytes:
    """Return a file in prometheus_client's format: the number of bytes in use; then, for each number, the
    length of its key, the key as JSON, padded with blanks to a multiple of 8 bytes, the number, and a time,
    which is not used."""
    entries = []
    for family, sample in rows:
        key = json.dumps([family.name, sample.name, sample.labels, family.help], sort_keys=True).encode()
        padded = key + b" " * (8 - (len(key) + 4) % 8)
        entries.append(struct.pack(f"i{len(padded)}sdd", len(key), padded, sample.value, 0.0))
    body = b"".join(entries)
    return struct.pack("i4x", 8 + len(body)) + body


_lock = forks.registered(threading.Lock(), forks.Order.SLOW)
_publishers: dict[Path, Publisher] = {}


def publish(folder: str | os.PathLike[str]) -> Publisher:
    """Write the metrics of this process to a folder from now on. Return the same publisher for the same
    folder.

    Raises:
        ArgumentError: `folder` is not the path of an existing folder.
    """
    path = Path(os.path.abspath(path_of(folder, "folder")))
    if not path.is_dir():
        raise ArgumentError(f"there is no folder {os.fspath(path)!r} for metrics; create it first")
    with _lock:
        found = _publishers.get(path)
        if found is None or found.is_closed:
            found = _publishers[path] = Publisher(path)
        return found


def _in_child() -> None:
    """Forget the publishers in a forked process: their threads do not exist, and their files belong to the
    parent."""
    _publishers.clear()


forks.in_child(_in_child)
