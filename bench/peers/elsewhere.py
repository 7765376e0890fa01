"""Another version of XGrammar, which cannot be imported together with the installed one.

What: `Peer` runs XGrammar from its own folder in a separate process, with dynamic compilation if that version
has it, on the same schemas and documents. The process measures the times.
When: in `bench.schemas` with ``--xgrammar-elsewhere FOLDER``; the folder is made by ``pip install --target
FOLDER --no-deps xgrammar==0.2.6rc2``.
Limits: another version may read schemas in another way, so its masks are not compared. All else is as in
`bench.request`: another small schema is served right before, garbage is collected, the collector stays on.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.request import Request, Start, plain_start, run_document

DYNAMIC = "enable_dynamic_compilation"


class Peer:
    """XGrammar from another folder, over one vocabulary.

    Args:
        vocabulary: the vocabulary.
        folder: the folder of that version.
        options: options of `compile_json_schema`.

    Raises:
        ValueError: there is no XGrammar, or it cannot be imported.
    """

    def __init__(self, vocabulary: Any, folder: Path, options: Mapping[str, Any]) -> None:
        if not (folder / "xgrammar").is_dir():
            raise ValueError(
                f"there is no XGrammar in {folder}; pip install --target {folder} --no-deps xgrammar==..."
            )
        path = os.pathsep.join(
            [str(folder), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        )
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "vocabulary.npz"
        vocabulary.save(file)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.elsewhere", str(file), json.dumps(dict(options))],
            env={**os.environ, "PYTHONPATH": path}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        about = self._answer()
        self.name = f"XGrammar {about['version']}" + (", dynamic" if about["is_dynamic"] else "")

    def schema(self, schema: Any, bitmask: Any = None) -> Start:
        """Take a JSON schema to its first mask in the other process; the result has no matcher."""
        found = self._ask({"schema": schema})
        return Start(None, **found)

    def document(self, request: Request, ids: Sequence[int]) -> None:
        """Take the last schema through a document."""
        found = self._ask({"ids": list(ids), "request": [request.first_mask, request.first_mask_cpu]})
        request.document, request.document_cpu = found["document"], found["document_cpu"]
        request.mask, request.token = array("d", found["mask"]), array("d", found["token"])

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise ValueError(f"the process of the other XGrammar ended with {self._process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def serve(file: str, options: dict[str, Any]) -> None:
    """The program of the other process: it reads a line and writes a line."""
    from importlib import metadata

    import xgrammar

    from equivalence import Vocabulary

    vocabulary = Vocabulary.load(file)
    is_dynamic = DYNAMIC in inspect.signature(xgrammar.GrammarCompiler.__init__).parameters
    own = {DYNAMIC: True} if is_dynamic else {}
    compiler = xgrammar.GrammarCompiler(vocabulary.tokenizer_info, **own)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    _say({"version": metadata.version("xgrammar"), "is_dynamic": is_dynamic})
    begun: Start | None = None
    for line in sys.stdin:
        question = json.loads(line)
        if "schema" in question:
            gc.collect()
            compile_it = partial(compiler.compile_json_schema, question["schema"], **options)
            begun = plain_start(compile_it, bitmask, collect=False)
            found = {"seconds": begun.seconds, "compile_seconds": begun.compile_seconds}
            _say({**found, "cpu_seconds": begun.cpu_seconds, "error": begun.error})
            continue
        request = Request()
        request.first_mask, request.first_mask_cpu = question["request"]
        if begun is not None and begun.calls is not None:
            run_document(request, begun.calls, question["ids"])
        _say({**asdict(request), "mask": list(request.mask), "token": list(request.token)})


def _say(answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], json.loads(sys.argv[2]))
