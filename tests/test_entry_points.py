"""Engines find the plugins by the metadata of a wheel; a plugin is light, and says what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint, PathDistribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.cases import CHECKOUT
from tests.sglang_backends import installed as sglang_installed
from tests.test_installation import PROJECT
from tests.vllm_stand_in import installed as vllm_installed

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


def in_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("group", "installed"), [*zip(GROUPS, (vllm_installed, sglang_installed), strict=True)]
)
def test_the_entry_point_names_what_registers(group: str, installed, monkeypatch) -> None:
    engine = GROUPS[group].rpartition(".")[2]
    with installed(monkeypatch) as put:
        adapter = put()[0]
        value = PROJECT["entry-points"][group]["equimask"]
        assert EntryPoint("equimask", value, group).load() is adapter.register
    assert any(one.startswith(engine) for one in PROJECT["optional-dependencies"][engine])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_entry_point_imports_nothing_heavy(engine: str) -> None:
    code = (
        "import sys; before = set(sys.modules); import importlib.machinery, types; "
        f"engine = types.ModuleType('{engine}'); "
        f"engine.__spec__ = importlib.machinery.ModuleSpec('{engine}', None); "
        f"sys.modules['{engine}'] = engine; import adapters.{engine}; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    found = set(in_new_process(code).split())
    assert "adapters" in found
    assert not found & {"numpy", "torch", "xgrammar", "transformers", "hybrid", "equivalence", "lark"}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_without_the_engine_the_import_says_how_to_install(engine: str) -> None:
    code = f"import sys; sys.modules['{engine}'] = None\ntry:\n import adapters.{engine}\n"
    code += "except ImportError as error:\n print(error.name, error)"
    assert f'pip install "equimask[{engine}]"' in in_new_process(code)
