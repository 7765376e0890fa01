"""Processes: how they end, several at once, other users, and installations that are not writable.

What: programs that end while threads promote, compile and write; folders of other users; kernels if neither
the installation nor the user's home is writable.
When: after any change of background work, of what is kept in folders, or of how kernels are found.
Limits: POSIX. Tests that need another user are skipped if this process cannot change its user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from equivalence import Vocabulary, source_check
from hybrid import GrammarCompiler
from tests.test_artifact import TOKENS, masks_along
from tests.test_cache_folder import warnings_of
from tests.test_forks import in_a_child
from tests.test_promotion import NESTED

CHECKOUT = Path(source_check.__file__).parents[1]
NOBODY = 65534

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user")


def run(program: str, *, seconds: float = 60, **options: Any) -> tuple[float, str]:
    """Run a program that must succeed. Returns the seconds after its last line, and what it printed."""
    begun = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        **{"cwd": CHECKOUT, **options},
    )  # fmt: skip
    printed, last = "", time.monotonic()
    try:
        for line in begun.stdout:
            printed, last = printed + line, time.monotonic()
        status = begun.wait(seconds)
    finally:
        begun.kill()
    assert status == 0 and "Traceback" not in printed and "Error" not in printed, (status, printed)
    return time.monotonic() - last, printed


# --- The end of the program --------------------------------------------------------------------------------

BEGIN = """
import threading, time
import xgrammar
from hybrid import Budget, GrammarCompiler, GrammarMatcher
from tests.test_artifact import VOCABULARY, masks_along
from tests.caches import wait_for
endless = xgrammar.Grammar.from_ebnf('root ::= ("a" | "b")* "a" ' + '("a" | "b") ' * 40)
budget = Budget(seconds=None, states=2**40, bytes=2**40)
compiler = GrammarCompiler(VOCABULARY, n_jobs=2, budget=budget)
"""

AT_WORK = """
from hybrid.classifier import promotion
from tests.test_artifact import grammar_of

# a promotion in small pieces, in a thread of the program's own
promotion.PIECE = promotion.CONTEXTS = 1
compiled = compiler.compile_grammar(grammar_of("sql_like"))
assert compiled.classes
threading.Thread(target=compiled.promote, daemon=True).start()

# compilations: one that does not end, one in another process, and some that have not begun
deep = '{"type":"array","items":' * 3000 + "{}" + "}" * 3000
futures = [compiler.compile_grammar_async(endless), compiler.compile_json_schema_async(deep)]
futures += [compiler.compile_regex_async("a" * number) for number in range(1, 100)]
for future in futures:
    future.add_done_callback(lambda future: print("cancelled" if future.cancelled() else "done"))
wait_for(futures[0].running)
wait_for(futures[1].running)

# a call in a thread of the program's own
other = GrammarCompiler(VOCABULARY, budget=budget)
threading.Thread(target=lambda: other.compile_grammar(endless), daemon=True).start()
wait_for(lambda: bool(other._memory._under_way))
compiler = None
"""


def test_a_program_ends_whatever_is_at_work() -> None:
    """The program must end at once, with status 0 and without errors; pending requests are cancelled."""
    seconds, printed = run(BEGIN + AT_WORK + "print('end', flush=True)\n")
    assert seconds < 15, f"{seconds} s after its last line"
    lines = printed.split("end\n")
    assert len(lines) == 2 and lines[1].splitlines().count("cancelled") >= 2, printed


def test_a_compiler_made_after_the_main_thread_has_ended_is_closed() -> None:
    program = """
import threading
from hybrid import GrammarCompiler, HybridError, Vocabulary
vocabulary = Vocabulary.from_bytes([b"a", b""], stop_token_ids=1)
def late():
    threading.main_thread().join()
    compiler = GrammarCompiler(vocabulary)
    assert compiler.compile_regex("a+").strategy == "classifier"
    try:
        compiler.compile_regex_async("a+")
    except HybridError as error:
        print("refused" if "the compiler is closed" in str(error) else error)
threading.Thread(target=late).start()
"""
    assert run(program)[1] == "refused\n"


def test_a_program_ends_without_a_word() -> None:
    """The module holds objects of all kinds, which Python destroys in any order."""
    program = """
from hybrid import *
vocabulary = Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b""], stop_token_ids=256)
compiler = GrammarCompiler(vocabulary)
schema = {"type": "object", "properties": {"a": {"type": "boolean"}}}
def read(compiled, text):  # holds the module
    return GrammarMatcher(compiled).accept_string(text)
for options in ({}, {"any_whitespace": False}):
    compiled = compiler.compile_json_schema(schema, **options)
    assert read(compiled, b"{}")
lark = compiler.compile_lark('start: "a"+')
matchers = [GrammarMatcher(compiled), GrammarMatcher(lark)]
print("end")
"""
    assert run(program)[1] == "end\n"


# --- Folders of other users -------------------------------------------------------------------------------

GRAMMARS = [NESTED, 'root ::= "a" | root "b"', "root ::= [0-9]{2,70}", 'root ::= "x" [a-f]+ "y"?']


def masks_with(folder: Path | None) -> tuple[list[list[bytes]], dict[str, int]]:
    """Return the masks of all grammars and the counts, with a cache in this folder."""
    vocabulary = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1])
    with GrammarCompiler(vocabulary, cache_dir=folder, on_demand=True) as compiler:
        found = [masks_along(compiler.compile_grammar(grammar), 1, 12) for grammar in GRAMMARS]
    return found, compiler.stats()["disk"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="equimask-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@needs_root
@pytest.mark.parametrize(
    ("mode", "of_files", "hits"),
    [
        (0o700, 0o644, 0),
        (0o755, None, 0),
        (0o755, 0o644, 4),
        (0o711, 0o644, 4),
        (0o733, None, 0),
        (0o1777, 0o644, 4),
        (0o1777, 0o600, 0),
    ],
    ids=["closed", "read-only", "read-only and filled", "not listed", "write-only", "open", "closed files"],
)
def test_a_folder_of_another_user(
    mode: int, of_files: int | None, hits: int, open_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Readable entries must be used, unreadable ones skipped, and each problem logged once."""
    wanted = masks_with(None if of_files is None else open_folder)[0]
    for file in open_folder.iterdir():
        file.chmod(of_files)
    open_folder.chmod(mode)

    def work() -> None:
        become_nobody()
        caplog.clear()
        for _ in range(2):
            found, counted = masks_with(open_folder)
            assert found == wanted and counted["damaged"] == 0
            assert counted["hits"] == hits or mode == 0o733, "what it wrote itself, it may read"
        said = warnings_of(caplog)
        assert len(said) <= 2, said  # one for each of the two compilers
        if mode != 0o733 and not hits:
            assert any("cannot be" in text.split("(")[0] for text in said), said

    in_a_child(work)


# --- Folders that cannot be written to ---------------------------------------------------------------------

MASK = """
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=[2])
matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_grammar('root ::= "a"+'))
bitmask = allocate_token_bitmask(1, 3)
matcher.fill_next_token_bitmask(bitmask)
print(int(bitmask[0, 0]) & 7)
"""


def test_an_installation_that_cannot_be_written_to(open_folder: Path) -> None:
    """Run it as a user without a home, too: it must not compile anything in place or write anything."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # who may write anywhere
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        probe = ["sh", "-c", '"$0" -c "import torch, xgrammar"', sys.executable]
        if subprocess.run(probe, cwd="/", check=False, **user).returncode:
            pytest.skip("nobody else may run this Python")
    code, closed = open_folder / "code", open_folder / "closed"
    for package in ("equivalence", "hybrid"):
        shutil.copytree(CHECKOUT / package, code / package, ignore=shutil.ignore_patterns("__pycache__"))
    closed.mkdir()
    folders = [closed, code, *(path for path in code.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        names = {"HOME": str(closed), "TMPDIR": str(closed), "PATH": os.environ["PATH"]}
        assert run(MASK, cwd=code, env=names, **user)[1].split() == ["1"]
        if os.geteuid() != 0:
            assert not any(path.name == "__pycache__" for path in code.rglob("*"))
    finally:
        for path in folders:
            path.chmod(0o755)
