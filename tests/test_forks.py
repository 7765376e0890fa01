"""Forks of a process with busy threads: children never hang, and their masks are exact.

What: hundreds of children of a busy process; locks that a fork gets, waits for or fails to get, and the state
that is then created anew; calls, futures, promotions and processes in progress; deadlines in a child.
When: after any change of `equivalence.forks`, or of code that makes a lock, a thread or a table of calls.
Limits: needs fork. A child that does not end in time prints where its thread is and is killed.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from equivalence import BudgetExceeded, Vocabulary, forks
from equivalence.deadline import Deadline
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.compile import statistics
from hybrid.compile.compilation import Compilation
from hybrid.guard import worker
from tests.caches import wait_for
from tests.matchers import mask_of
from tests.test_artifact import TOKENS, VOCABULARY, masks_along

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SHARED = 'root ::= ("(" root ")" | "[" [0-9]{2,9} "]" | "{" root "}" root | " = " [a-c]{1,3})*'
NEW = "new[0-9]+(a|b){2,3}"
HELD = 'root ::= "held" [0-9]{1,3} root?'
SECONDS = 20.0
"""Time limit for a child on a busy machine; usually it takes a tenth of a second."""

FORKS = 30


class Child:
    """A forked process that does some work, and exits with status 0 if nothing is raised."""

    def __init__(self, work: Callable[[], Any], seconds: float = SECONDS) -> None:
        self.seconds, self.ends = seconds, time.monotonic() + seconds
        self.process = os.fork()
        if self.process == 0:
            status = 1
            try:
                faulthandler.dump_traceback_later(seconds - 1, exit=True, file=sys.__stderr__)
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - told to the parent by the status
                traceback.print_exc()
            finally:
                os._exit(status)

    def wait(self) -> None:
        while True:
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                break
            if time.monotonic() > self.ends:
                self.kill()
                raise AssertionError(f"a child did not end within {self.seconds} seconds")
            time.sleep(0.002)
        assert status == 0, f"a child failed, with status {status}; its error is above"

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def in_a_child(work: Callable[[], Any], seconds: float = SECONDS) -> None:
    Child(work, seconds).wait()


@contextmanager
def at_work(*calls: Callable[[], Any]) -> Iterator[None]:
    """Run threads that repeat these calls; raise their first error."""
    stop = threading.Event()

    def repeat(call: Callable[[], Any]) -> None:
        while not stop.is_set():
            call()

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(repeat, call) for call in calls]
        try:
            yield
        finally:
            stop.set()
    for future in futures:
        future.result()


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Hold a lock in another thread."""
    taken, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            let_go.wait(30)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        assert taken.wait(30)
        try:
            yield
        finally:
            let_go.set()


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in forks.WAIT_SECONDS:
        monkeypatch.setitem(forks.WAIT_SECONDS, kind, 0.01)


class Held:
    """Blocks the compilation of one grammar in this process, but not in its children."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.let_go, process = threading.Event(), threading.Event(), os.getpid()
        decide = Compilation.decide

        def gated(compilation: Compilation, grammar: Any, *rest: Any) -> Any:
            if os.getpid() == process and "held" in str(grammar):
                self.reached.set()
                assert self.let_go.wait(240)
            return decide(compilation, grammar, *rest)

        monkeypatch.setattr(Compilation, "decide", gated)


def test_children_of_a_busy_process_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While threads fill masks, compile, promote and write to folders, children do the same, and none
    hangs."""
    vocabulary = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1, 65])
    compiler = GrammarCompiler(
        vocabulary, n_jobs=2, cache_dir=tmp_path, cache_limit_bytes=2**22, on_demand=True,
        budget=Budget(seconds=None),  # the blocked compilation takes as long as the test
    )  # fmt: skip
    calm = GrammarCompiler(VOCABULARY, cache_enabled=False)

    def masks_of(compiled: CompiledGrammar) -> list[list[bytes]]:
        return [masks_along(compiled, seed, 12) for seed in range(4)]

    wanted = {
        "shared": masks_of(calm.compile_grammar(SHARED)),
        "new": masks_of(calm.compile_regex(NEW)),
        "held": masks_of(calm.compile_grammar(HELD)),
    }
    shared = compiler.compile_grammar(SHARED)
    serial = iter(range(10**9))
    gate = Held(monkeypatch)

    def fill() -> None:
        seed = next(serial) % 4
        assert masks_along(shared, seed, 12) == wanted["shared"][seed]
        if seed == 3:
            with shared.classifier.lock:
                shared.classifier.renew()  # replaces all tables by new ones

    def compile_one() -> None:
        number = next(serial)
        one = compiler.compile_grammar(f'root ::= "{number}" | [0-9]{{{1 + number % 9},12}} "x"*')
        masks_along(one, 1, 6)
        assert number % 3 or one.promote()

    waiting = threading.Thread(target=lambda: compiler.compile_grammar(HELD))
    waiting.start()
    future = compiler.compile_grammar_async(HELD)
    assert gate.reached.wait(30)

    def work(number: int) -> None:
        seed = number % 4
        assert masks_along(shared, seed, 12) == wanted["shared"][seed]
        assert masks_along(compiler.compile_regex(NEW), seed, 12) == wanted["new"][seed]
        assert masks_along(compiler.compile_grammar(HELD), seed, 12) == wanted["held"][seed]
        assert future.cancelled()
        if number % 10 == 0:
            assert compiler.compile_grammar_async(HELD, static=True).result().classifier.is_complete
            compiler.close()

    children: list[Child] = []
    began = time.monotonic()
    try:
        with at_work(fill, fill, compile_one):
            for number in range(FORKS):
                children.append(Child(partial(work, number)))
                if len(children) == 2:
                    children.pop(0).wait()
                assert time.monotonic() - began < 240, f"{number} forks took too long"
            while children:
                children.pop().wait()
    finally:
        gate.let_go.set()
        waiting.join()
    assert masks_along(future.result(), 1, 12) == wanted["held"][1], "the parent's own goes on"
    compiler.close()


# --- Locks -------------------------------------------------------------------------------------------------


def test_a_fork_waits_for_who_writes_tables() -> None:
    """A fork waits until a thread has written its tables: the child keeps all entries and creates nothing
    anew."""
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(SHARED)
    session, wanted = compiled.classifier.session, masks_along(compiled, 1, 20)
    lock, let_go = compiled.classifier.lock, threading.Event()

    def brief() -> None:
        with lock:
            time.sleep(0.2)
            let_go.set()

    thread = threading.Thread(target=brief)
    thread.start()
    wait_for(lock.locked)

    def work() -> None:
        assert let_go.is_set(), "the fork came before the lock was free"
        assert compiled.classifier.session is session
        assert masks_along(compiled, 1, 20) == wanted

    in_a_child(work)
    thread.join()
    assert not lock.locked()


def test_what_a_fork_cannot_wait_for_is_begun_anew(short_waits: None) -> None:
    """The tables of a classifier may be half written then: matchers keep their state and continue in new
    tables."""
    compiler = GrammarCompiler(Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1]))
    compiled = compiler.compile_grammar(SHARED)
    classifier, wanted = compiled.classifier, masks_along(compiled, 1, 20)
    matcher, session = GrammarMatcher(compiled), classifier.session
    assert matcher.accept_string("([12")
    mask = mask_of(matcher)

    def work() -> None:
        assert classifier.session is not session
        assert masks_along(compiled, 1, 20) == wanted
        assert mask_of(matcher) == mask
        assert matcher.accept_string("3])") and matcher.is_completed()
        matcher.rollback(2)
        assert matcher.is_completed() and matcher.accept_string("(") and not matcher.is_completed()
        compiler.compile_regex("a{2,5}")

    with held(classifier.lock):
        began = time.monotonic()
        in_a_child(work)
        assert time.monotonic() - began < SECONDS - 1
    assert classifier.session is session, "nothing changes here"
    assert masks_along(compiled, 1, 20) == wanted


def every_lock() -> list[Any]:
    return [
        lock for kind in forks.Order for lock in forks._alive(forks._registered[kind])
        if type(lock) is type(threading.Lock())
    ]  # fmt: skip


def test_no_lock_stays_held(short_waits: None, tmp_path: Path) -> None:
    """No lock of the program stays held in a child, even if a thread that the child does not have held it."""
    vocabulary = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1])
    compiler = GrammarCompiler(vocabulary, cache_dir=tmp_path, on_demand=True)
    with compiler:
        compiled = compiler.compile_grammar(SHARED)
        future = compiler.compile_regex_async("a")
        future.result()
        wanted = masks_along(compiled, 1, 5)
        assert len({id(lock) for lock in every_lock()}) > 12

        def work() -> None:
            assert not any(lock.locked() for lock in every_lock())
            assert masks_along(compiled, 1, 5) == wanted
            assert future.result() is not None
            compiler.compile_regex_async("b").result()
            compiler.compile_grammar('root ::= "c" | root "d"', static=True)
            assert sum(map(compiler.stats()["disk"].get, ("hits", "writes"))) >= 3
            compiler.close()

        for lock in (
            compiled.classifier.lock, compiler._memory._lock, compiler._disk._lock,
            compiler._background._lock, statistics._lock, future._own_lock, future._condition,
            worker._lock, worker._opening,
        ):  # fmt: skip
            with held(lock):
                in_a_child(work)


def sources() -> Iterator[tuple[Path, str]]:
    """Yield the modules of our packages, and their texts."""
    for package in ("equivalence", "hybrid", "adapters"):
        for path in (Path(forks.__file__).parents[1] / package).rglob("*.py"):
            yield path, path.read_text("utf-8")


def test_every_lock_is_registered() -> None:
    """A lock that is not registered with `forks` can hang a child."""
    makes_lock = re.compile(r"threading\.(R?Lock|Condition)\(")
    is_known = re.compile(r"registered\(|Condition\(\)  # a thread")
    for path, text in sources():
        if path.name not in ("forks.py", "process.py"):
            for number, line in enumerate(text.splitlines(), 1):
                assert is_known.search(line) or not makes_lock.search(line), f"{path}:{number}"


def test_properties_have_no_lock() -> None:
    """Before Python 3.12, `cached_property` holds a lock of its class while it computes the value."""
    begun, may_end = threading.Event(), threading.Event()

    @forks.with_unlocked_properties
    class Slow:
        def __init__(self, is_slow: bool) -> None:
            self.is_slow = is_slow

        @cached_property
        def value(self) -> bool:
            begun.set()
            return not self.is_slow or may_end.wait(20)

    one, other = Slow(True), Slow(False)
    thread = threading.Thread(target=lambda: one.value)
    thread.start()
    assert begun.wait(20)
    in_a_child(lambda: other.value, 5)
    before = time.monotonic()
    assert other.value and time.monotonic() - before < 10
    may_end.set()
    thread.join()


def test_every_class_with_such_properties_is_decorated() -> None:
    for path, text in sources():
        before = ""
        for part in re.split(r"\n(?=class |def )", text):
            decorators = before[before.rfind("\n\n") :]
            assert "@cached_property" not in part or "with_unlocked_properties" in decorators, path
            before = part


def test_two_threads_may_fork_at_once() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(SHARED)
    wanted = masks_along(compiled, 1, 10)

    fork = partial(in_a_child, lambda: masks_along(compiled, 1, 10) == wanted or os._exit(3))
    began = time.monotonic()
    with at_work(fork, fork, lambda: masks_along(compiled, 2, 10)):
        time.sleep(0.5)
    assert time.monotonic() - began < 15


def test_locks_that_are_gone_are_forgotten() -> None:
    before = sum(map(len, forks._registered.values())), len(forks._in_child)
    for _ in range(50):
        forks.registered(threading.Lock(), forks.Order.BRIEF)
    Child(lambda: None).wait()
    assert (sum(map(len, forks._registered.values())), len(forks._in_child)) == before


# --- What is under way -------------------------------------------------------------------------------------


def test_futures_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, compiler = Held(monkeypatch), GrammarCompiler(VOCABULARY, n_jobs=1)
    running, waiting = compiler.compile_grammar_async(HELD), compiler.compile_regex_async("later")
    called: list[int] = []
    running.add_done_callback(lambda _: called.append(os.getpid()))
    assert gate.reached.wait(30)

    def work() -> None:
        for future in (running, waiting):
            with pytest.raises(CancelledError):
                future.result(5)
        assert compiler.compile_grammar_async(HELD).result(10).classes and called == []
        compiler.close()

    in_a_child(work)
    gate.let_go.set()
    assert running.result().classes and waiting.result().classes and called == [os.getpid()]
    compiler.close()


def test_deadlines_go_on_in_the_child() -> None:
    deadline = Deadline(0.2)

    def work() -> None:
        wait_for(lambda: deadline.is_over)
        with pytest.raises(BudgetExceeded):
            deadline.check("a child's part")

    in_a_child(work)


@pytest.mark.skipif(not worker.is_available(), reason="no other process here")
def test_a_task_of_the_guard_is_not_shared() -> None:
    """The child closes its copies of the sockets, and starts a process of its own."""
    task = worker.Task({"task": "convert", "function": "from_regex", "arguments": ["a+", False]})
    answer = worker.run(task, Deadline(30), "a test")
    theirs = worker._process
    theirs_id = theirs._process.pid
    number, channel = theirs.submit("regex")

    def work() -> None:
        assert theirs._control.fileno() == channel.fileno() == -1 and worker._process is None
        assert worker.run(task, Deadline(30), "a test") == answer
        mine: Any = worker._process
        assert mine._process.pid != theirs_id
        worker.close()

    in_a_child(work)
    channel.close()
    theirs.kill(number)
    assert worker.run(task, Deadline(30), "a test") == answer and worker._process is theirs
