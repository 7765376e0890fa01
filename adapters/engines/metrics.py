"""The metrics of an engine's processes where the engine serves its own.

What: `publish_as_told` writes those of the process that compiles to a folder, and `serve` has the process
that answers ``/metrics`` read them there.
When: both from plugins, which run in every process of an engine and do not know which one it is.
Limits: those of `hybrid.metrics.files`. Where prometheus_client is missing, nothing is served, and nothing
else is different.

An engine with several processes that answer sets ``PROMETHEUS_MULTIPROC_DIR``, and reads everything in that
folder: ours is there too. With one, it serves prometheus_client's registry of that process, where a collector
of ours reads a folder of our own, whose name the processes inherit.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from typing import Any

from adapters.engines.settings import Settings

THEIRS = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client's variable with the folder of all processes."""

OURS = "EQUIMASK_METRICS_DIR"
"""The variable with the folder that `serve` made, for the processes that are started from there."""

logger = logging.getLogger("equimask.metrics")

_served: set[str] = set()


def serve(settings: Settings) -> None:
    """Have prometheus_client's registry of this process show what it and its children publish."""
    if not settings.has_metrics() or os.environ.get(THEIRS):
        return
    try:
        from prometheus_client import REGISTRY, multiprocess
    except ImportError:
        return
    folder = os.environ.get(OURS)  # of the process that started this one
    if not folder or not os.path.isdir(folder):
        folder = tempfile.mkdtemp(prefix="equimask-metrics-")
        os.environ[OURS] = folder
        atexit.register(_remove, folder, os.getpid())
    if folder in _served:
        return
    try:
        collect: Any = multiprocess.MultiProcessCollector
        collect(REGISTRY, folder)
    except ValueError as error:  # somebody shows metrics of these names already
        logger.warning("metrics of equimask's processes are not shown: %s", error)
    _served.add(folder)


def publish_as_told(settings: Settings) -> None:
    """Write the metrics of this process to where they are read, if anybody does."""
    folder = os.environ.get(THEIRS) or os.environ.get(OURS)
    if not settings.has_metrics() or not folder or not os.path.isdir(folder):
        return
    from hybrid.metrics import publish

    publish(folder)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
