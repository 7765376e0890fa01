"""Serving our metrics together with those of an engine.

What: `publish_as_told` writes the metrics of the process that compiles to a folder. `serve` makes the process
that answers ``/metrics`` read them there.
When: both are called by plugins, which run in every process of an engine and do not know which one it is.
Limits: those of `hybrid.metrics.files`. Without prometheus_client no metrics are served, and nothing else
changes.

An engine with several processes that answer ``/metrics`` sets ``PROMETHEUS_MULTIPROC_DIR``, and serves all
metrics in that folder; ours are written there, too. An engine with one such process serves
prometheus_client's registry of that process. There, our collector reads a folder of our own, whose name the
processes inherit.
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
"""prometheus_client's environment variable for the folder of all processes."""

OURS = "EQUIMASK_METRICS_DIR"
"""Our environment variable for the folder that `serve` has made. Child processes inherit it."""

logger = logging.getLogger("equimask.metrics")

_served: set[str] = set()


def serve(settings: Settings) -> None:
    """Make prometheus_client's registry of this process serve the metrics of this process and its
    children."""
    if not settings.has_metrics() or os.environ.get(THEIRS):
        return
    try:
        from prometheus_client import REGISTRY, multiprocess
    except ImportError:
        return
    folder = os.environ.get(OURS)  # set by the parent process
    if not folder or not os.path.isdir(folder):
        folder = tempfile.mkdtemp(prefix="equimask-metrics-")
        os.environ[OURS] = folder
        atexit.register(_remove, folder, os.getpid())
    if folder in _served:
        return
    try:
        collect: Any = multiprocess.MultiProcessCollector
        collect(REGISTRY, folder)
    except ValueError as error:  # there are metrics of these names already
        logger.warning("metrics of equimask are not available: %s", error)
    _served.add(folder)


def publish_as_told(settings: Settings) -> None:
    """Write the metrics of this process to the folder from which they are served, if there is one."""
    folder = os.environ.get(THEIRS) or os.environ.get(OURS)
    if not settings.has_metrics() or not folder or not os.path.isdir(folder):
        return
    from hybrid.metrics import publish

    publish(folder)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
