"""A new process: the time from its start to the first mask of a first schema.

What: starts Python anew for each engine, which imports the library, loads the vocabulary, compiles a schema
and fills one mask. The seconds of each part are reported, and those of all parts except the vocabulary. The
same is measured once more without byte code, as in the first process after an installation: this is the
additional cost on a new machine.
When: ``python -m bench starting --vocabulary SPEC --json FILE``.
Limits: a first run, which is not counted, brings files into the system's cache. Caches of engines on disk are
off. The installation itself is not measured, as it depends on pip and the network. For all engines, our
loader loads the vocabulary, and imports our library and XGrammar if that was not done before; so its seconds
cannot be compared. Byte code is that of all packages, including those that every engine needs (numpy, torch).
"""

from __future__ import annotations

import json as json_format
import os
import subprocess
import sys
import tempfile
from typing import Annotated, Any

import typer

from bench import options, report, workloads
from bench.cases import CHECKOUT
from bench.peers.llguidance import is_installed
from bench.reporting.answers import publish

PARTS = ("import", "vocabulary", "compiler", "first mask")
TOGETHER = "all but the vocabulary"

_HEAD = """
import json, sys
from time import perf_counter
times = [perf_counter()]
"""
_LOAD = """
times.append(perf_counter())
from bench.workloads import load_vocabulary
vocabulary = load_vocabulary(sys.argv[1])
vocabulary.tokenizer_info
times.append(perf_counter())
"""
_TAIL = """
times.append(perf_counter())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""
_ENGINES = {
    "ours": (
        "from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask",
        "compiler = GrammarCompiler(vocabulary)",
        """
matcher = GrammarMatcher(compiler.compile_json_schema(sys.argv[2]))
matcher.fill_next_token_bitmask(allocate_token_bitmask(1, vocabulary.size))
""",
    ),
    "XGrammar": (
        "import xgrammar",
        "compiler = xgrammar.GrammarCompiler(vocabulary.tokenizer_info)",
        """
matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(sys.argv[2]))
matcher.fill_next_token_bitmask(xgrammar.allocate_token_bitmask(1, vocabulary.size))
""",
    ),
    "llguidance": (
        "import llguidance",
        "from bench.peers.llguidance import Peer; peer = Peer(vocabulary)",
        "assert not peer.schema(sys.argv[2]).error",
    ),
}
"""The code of each process: to import the library, to make a compiler, to fill a first mask."""


def start(engine: str, vocabulary: str, byte_code: str | None = None) -> dict[str, float]:
    """Return the seconds of each part, and of all parts of the engine itself: all except the vocabulary.

    `byte_code` is the folder where Python looks for compiled modules; None is Python's default.
    """
    library, compiler, mask = _ENGINES[engine]
    code = "\n".join((_HEAD, library, _LOAD, compiler, "times.append(perf_counter())", mask, _TAIL))
    command = [sys.executable, "-c", code, vocabulary, json_format.dumps(workloads.THROW_AWAY_SCHEMA)]
    own = os.environ | ({} if byte_code is None else {"PYTHONPYCACHEPREFIX": byte_code})
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=CHECKOUT, timeout=600, env=own
    )
    parts = dict(zip(PARTS, json_format.loads(done.stdout.splitlines()[-1]), strict=True))
    return parts | {TOGETHER: sum(parts.values()) - parts["vocabulary"]}


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    repeats: Annotated[int, typer.Option(min=1, help="Processes of each engine, in turn.")] = 5,
) -> None:
    """Measure a new process: importing, the vocabulary, the compiler, the first mask."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        workloads.load_vocabulary(vocabulary)
    engines = [name for name in _ENGINES if name != "llguidance" or is_installed()]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
    for number in range(repeats + 1):
        for name in engines:
            times = start(name, vocabulary)
            if number:
                found[name].append(times)
    fresh = {}
    for name in engines:
        with tempfile.TemporaryDirectory() as folder:
            fresh[name] = start(name, vocabulary, folder)
    rows: dict[str, Any] = {
        name: {part: report.Spread.of(one[part] for one in own) for part in (*PARTS, TOGETHER)}
        for name, own in found.items()
    }
    publish(console, json, "starting", arguments, {"rows": rows, "fresh": fresh})
