"""Without extensions, and asked for it, all of the code runs as plain Python and gives the same masks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from equivalence import built
from tests import plain_documents

CHECKOUT = Path(__file__).resolve().parent.parent
SECONDS = 300
"""After which it hangs; it takes some 5 s, half of them to import torch."""


def test_plain_python_gives_the_same_masks(tmp_path: Path) -> None:
    for package in ("equivalence", "hybrid"):
        unbuilt = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(CHECKOUT / package, tmp_path / package, ignore=unbuilt)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), built.PLAIN: "1", "PYTHONDONTWRITEBYTECODE": "1"}
    # numbers of numpy that overflow are only warned of
    command = [sys.executable, "-W", "error::RuntimeWarning", plain_documents.__file__]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert run.returncode == 0, run.stderr[-4000:]
    told = json.loads(run.stdout)
    assert told["from"] == str(tmp_path / "hybrid" / "classifier" / "store.py")
    found = plain_documents.all_results()
    assert told["results"].keys() == found.keys()
    for name, result in found.items():
        assert told["results"][name] == result, name
