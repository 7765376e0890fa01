"""The metadata of a wheel of this project declares the plugins by which engines find it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PathDistribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.cases import CHECKOUT

PREPARE = "import sys, setuptools.build_meta as build; build.prepare_metadata_for_build_wheel(sys.argv[1])"
GROUPS = {"vllm.general_plugins": "adapters.vllm", "sglang.srt.plugins": "adapters.sglang"}


@pytest.mark.skipif(find_spec("setuptools") is None, reason="the build's requirements are not installed")
def test_entry_points_of_a_wheel(tmp_path: Path) -> None:
    """`importlib.metadata` finds them. The wheel is made without ``setup.py``, which would compile
    everything."""
    project, made = tmp_path / "project", tmp_path / "made"
    project.mkdir()
    made.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, project / name)
    command = [sys.executable, "-c", PREPARE, str(made)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-2000:]
    found = PathDistribution(next(made.glob("*.dist-info")))
    assert found.metadata["Name"] == "equimask"
    by_group = {one.group: one for one in found.entry_points if one.name == "equimask"}
    for group, module in GROUPS.items():
        assert by_group[group].module == module
        assert find_spec(module) is not None
