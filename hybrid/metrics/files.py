"""The metrics of this process in a folder, for another one that serves those of all.

What: `Publisher` writes them every few seconds, in the format of prometheus_client's multi-process mode,
whose `MultiProcessCollector` adds up what it finds in the folder. `publish` makes one for the process.
When: engines that compile in another process than the one that answers ``/metrics``.
Limits: numbers are `SECONDS` old at most. A process that is forked publishes nothing until it calls
`publish`. Counters of a process that has ended stay, so that sums never fall, and its gauges go; those of one
that was killed stay until the folder is emptied.

A file is written whole and renamed. prometheus_client itself maps its files into memory, where a full disk
ends the process, and would need a variable of the environment that has to be set before it is imported.
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

from equivalence import forking
from hybrid.compile import shutdown
from hybrid.metrics.families import FAMILIES, Family, Sample, begin_to_look, look, samples

SECONDS = 5.0
"""Between two looks at what is counted: a third of what Prometheus waits between two scrapes."""

LEAVE_SECONDS = 1.0
"""How long the end of the program waits for a file that is being written."""

logger = logging.getLogger(__name__)


class Publisher:
    """Writes the metrics of this process to a folder, from now on until it is closed.

    Args:
        folder: what the scraped process gives to prometheus_client's `MultiProcessCollector`; it exists.
        seconds: between two times.
    """

    def __init__(self, folder: str | os.PathLike[str], seconds: float = SECONDS) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._seconds = seconds
        self._process = os.getpid()
        self._warned = False
        self._ended = threading.Event()
        begin_to_look()
        self.write()
        self._thread = threading.Thread(target=self._work, name="equimask-metrics", daemon=True)
        self._thread.start()
        shutdown.at_exit(self.close)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is written any more."""
        return self._ended.is_set()

    def write(self) -> None:
        """Write all metrics as they are now; what the file system refuses is said once, in the log."""
        if not self.folder.is_dir():
            return  # its owner has ended
        found = look()
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
        """Write them once more, and stop; gauges of a process that has ended mean nothing."""
        if self._ended.is_set() or self._process != os.getpid():
            return
        self._ended.set()
        self._thread.join(LEAVE_SECONDS)
        self.write()
        for family in FAMILIES:
            if family.kind == "gauge":
                with contextlib.suppress(OSError):
                    (self.folder / self._name(family)).unlink()

    def _work(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self.write()
            except Exception:
                logger.exception("metrics could not be written")

    def _name(self, family: Family) -> str:
        """The file of a metric: its kind, for gauges how several become one, and who writes it.

        prometheus_client has files of its own of this process, by its number alone.
        """
        kind = f"gauge_live{family.together}" if family.kind == "gauge" else family.kind
        return f"{kind}_equimask-{self._process}.db"

    def _replace(self, name: str, data: bytes) -> None:
        partial = self.folder / f"{name}.partial"
        partial.write_bytes(data)
        os.replace(partial, self.folder / name)


def encoded(rows: Iterable[tuple[Family, Sample]]) -> bytes:
    """A file of prometheus_client's: bytes used, then for each number its key's length, its key as JSON with
    blanks up to a multiple of 8 bytes, the number, and a time, which is not asked for."""
    entries = []
    for family, sample in rows:
        key = json.dumps([family.name, sample.name, sample.labels, family.help], sort_keys=True).encode()
        padded = key + b" " * (8 - (len(key) + 4) % 8)
        entries.append(struct.pack(f"i{len(padded)}sdd", len(key), padded, sample.value, 0.0))
    body = b"".join(entries)
    return struct.pack("i4x", 8 + len(body)) + body


_lock = forking.listed(threading.Lock(), forking.Order.SLOW)
_publishers: dict[Path, Publisher] = {}


def publish(folder: str | os.PathLike[str]) -> Publisher:
    """Write the metrics of this process to a folder from now on; the same one for the same folder."""
    path = Path(os.path.abspath(folder))
    with _lock:
        found = _publishers.get(path)
        if found is None or found.is_closed:
            found = _publishers[path] = Publisher(path)
        return found


def _in_child() -> None:
    """The threads are not there, and the files are the parent's."""
    _publishers.clear()


forking.in_child(_in_child)
