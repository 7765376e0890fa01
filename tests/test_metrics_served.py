"""Metrics as Prometheus gets them, from one process and from several.

What: a registry with `Collector`; folders to which several processes publish; the two ways in which engines
serve metrics: from their own folder, and from a registry of the process that answers while another one
compiles.
When: after any change of `hybrid.metrics` or of `adapters.engines.metrics`.
Limits: engines' own servers are in `tests/test_vllm_metrics.py`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from adapters.engines import metrics as engines
from adapters.engines.settings import Settings
from equivalence import ArgumentError
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.metrics import FAMILIES, Publisher, files, publish
from hybrid.metrics.collector import Collector
from hybrid.metrics.families import current_counts
from tests.caches import wait_for
from tests.new_process import printed_by
from tests.test_artifact import SCHEMA, VOCABULARY
from tests.test_forks import in_a_child

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(registry: CollectorRegistry) -> Samples:
    """Our samples in what a registry serves."""
    return parsed(generate_latest(registry).decode())


def scrape_folder(folder: Path) -> Samples:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))
    return scrape(registry)


def parsed(text: str) -> Samples:
    """Our samples in the text of a scrape."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        if family.name.startswith("equimask_")
        for sample in family.samples
    }


def work(times: int = 1) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    for _ in range(times):
        matcher = GrammarMatcher(compiler.compile_json_schema(SCHEMA))
        matcher.fill_next_token_bitmask(allocate_token_bitmask(1, VOCABULARY.size))


STRATEGY = (("semantics", "xgrammar"), ("strategy", "classifier"))


def test_a_registry_shows_what_was_done() -> None:
    registry = CollectorRegistry()
    registry.register(Collector())
    before = scrape(registry)
    work(3)
    after = scrape(registry)

    def more(name: str, *labels: tuple[str, str]) -> float:
        return after[name, labels] - before.get((name, labels), 0.0)

    assert more("equimask_masks_total") == 3
    assert more("equimask_compile_seconds_count", *STRATEGY) == 1
    assert more("equimask_first_mask_seconds_count", *STRATEGY) == 1
    assert more("equimask_compile_seconds_bucket", ("le", "+Inf"), *STRATEGY) == 1
    assert 0 < more("equimask_compile_seconds_sum", *STRATEGY) < 60
    assert more("equimask_cache_hits_total", ("place", "memory")) == 2
    assert more("equimask_cache_misses_total", ("place", "memory")) == 1
    names = {name for name, _ in after}
    for family in FAMILIES:
        assert names & {*family.sample_names} or not family.values(current_counts())
    counts = [value for (name, labels), value in after.items()
              if name == "equimask_compile_seconds_bucket" and set(STRATEGY) <= set(labels)]  # fmt: skip
    assert counts == sorted(counts), "ranges hold those below"


def test_a_folder_says_the_same(tmp_path: Path) -> None:
    work()
    publisher = Publisher(tmp_path, 1000)
    try:
        registry = CollectorRegistry()
        registry.register(Collector())
        publisher.write()
        found = scrape_folder(tmp_path)
        assert found == scrape(registry) and len(found) > 20
    finally:
        publisher.close()


@pytest.mark.parametrize("folder", ["", "a\0b", b"folder", 3, None])
def test_metrics_are_not_published_to_what_is_no_folder(folder: Any) -> None:
    for begin in (publish, Publisher):
        with pytest.raises(ArgumentError, match="folder must be the path"):
            begin(folder)


def test_metrics_are_not_published_to_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"no folder .*never' for metrics; create it"):
        publish(tmp_path / "never")
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match="there is no folder"):
        publish(tmp_path / "file")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_add_up_and_what_they_hold_goes_with_them(tmp_path: Path) -> None:
    def one() -> None:
        publisher = publish(tmp_path)
        work(2)
        publisher.close()

    def another() -> None:
        compiler = GrammarCompiler(VOCABULARY)
        publish(tmp_path)
        compiler.compile_json_schema(SCHEMA)
        publish(tmp_path).write()
        os._exit(0)  # like a killed process

    for child in (one, one, another):
        in_a_child(child)
    found = scrape_folder(tmp_path)
    assert found["equimask_compile_seconds_count", STRATEGY] == 3
    assert found["equimask_masks_total", ()] == 4
    assert found["equimask_memory_bytes", ()] > 0, "of the one that did not say goodbye"
    kinds = Counter(path.name.split("_")[0] for path in tmp_path.iterdir())
    assert kinds == {"counter": 3, "gauge": 2, "histogram": 3}


def test_it_is_written_again_and_again(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, 0.02)
    masks = "equimask_masks_total", ()
    before = scrape_folder(tmp_path)[masks]
    work(2)
    wait_for(lambda: scrape_folder(tmp_path)[masks] >= before + 2)
    publisher.close()
    again = publish(tmp_path)
    assert publish(tmp_path) is again
    again.close()
    assert publish(tmp_path) is not again
    publish(tmp_path).close()


def test_a_write_that_takes_long_leaves_no_gauges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = Publisher(tmp_path, 0.001)
    writes, goes_on, replace = threading.Event(), threading.Event(), Publisher._replace

    def slow(self: Publisher, name: str, data: bytes) -> None:
        if threading.current_thread() is self._thread:
            writes.set()
            goes_on.wait(30)
        replace(self, name, data)

    monkeypatch.setattr(Publisher, "_replace", slow)
    monkeypatch.setattr(files, "EXIT_SECONDS", 0.01)
    assert writes.wait(30)
    publisher.close()
    goes_on.set()
    publisher._thread.join(30)
    assert {path.name.split("_")[0] for path in tmp_path.iterdir()} == {"counter", "histogram"}


def test_what_the_file_system_refuses_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    publisher = Publisher(tmp_path, 1000)
    for path in tmp_path.iterdir():
        path.unlink()
        path.mkdir()
    (path / "mine").touch()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            publisher.write()
        publisher.close()
    assert len([one for one in caplog.records if "metrics cannot be written" in one.getMessage()]) == 1
    gone = Publisher(tmp_path / "never", 1000)
    gone.write()
    gone.close()


# --- In engines --------------------------------------------------------------------------------------------

SETTINGS = Settings("EQUIMASK_TESTED")

SERVER = """
import subprocess, sys, urllib.request
import prometheus_client
from adapters.engines.metrics import serve
from adapters.engines.settings import Settings
settings = Settings("EQUIMASK_TESTED")
serve(settings)
serve(settings)
prometheus_client.Counter("vllm_requests", "theirs").inc(7)
subprocess.run([sys.executable, "-c", '''
from adapters.engines.metrics import publish_as_told, serve
from adapters.engines.settings import Settings
settings = Settings("EQUIMASK_TESTED")
serve(settings)
publish_as_told(settings)
from tests.test_metrics_served import work
work(5)
'''], check=True)
server, _ = prometheus_client.start_http_server(0, "127.0.0.1")
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().decode())
"""


@pytest.mark.parametrize("is_on", [True, False])
def test_one_process_answers_and_another_compiles(tmp_path: Path, is_on: bool) -> None:
    """vLLM with one server: the registry that it serves contains the metrics that its child publishes, beside
    its own."""
    variables = {engines.OURS: None, engines.THEIRS: None, "TMPDIR": str(tmp_path)}
    served = printed_by(SERVER, **variables, EQUIMASK_TESTED_METRICS=None if is_on else "0")
    found = parsed(served)
    if is_on:
        assert found["equimask_masks_total", ()] == 5 and "vllm_requests_total 7.0" in served
        assert found["equimask_compile_seconds_count", STRATEGY] == 1
    else:
        assert found == {}
    assert not list(tmp_path.iterdir()), "the folder goes with the process that made it"


def test_an_engine_with_a_folder_gets_everything_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the case of SGLang, and of vLLM with several servers."""
    monkeypatch.setenv(engines.THEIRS, str(tmp_path))
    monkeypatch.delenv(engines.OURS, raising=False)
    engines.serve(SETTINGS)
    assert engines.OURS not in os.environ
    monkeypatch.setenv("EQUIMASK_TESTED_METRICS", "0")
    engines.publish_as_told(SETTINGS)
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("EQUIMASK_TESTED_METRICS", "1")
    engines.publish_as_told(SETTINGS)
    work(2)
    publish(tmp_path).write()
    assert scrape_folder(tmp_path)["equimask_masks_total", ()] >= 2
    publish(tmp_path).close()
    monkeypatch.setenv("EQUIMASK_TESTED_METRICS", "yes")
    with pytest.raises(ValueError, match="must be 1"):
        engines.publish_as_told(SETTINGS)
