"""Ctrl-C interrupts a running kernel, and leaves nothing locked or half made.

What: real signals while kernels run in the main thread; an exception at every moment at which Python may
handle a signal, in compilations and in every method of matchers, and the state afterwards; other threads that
waited.
When: after any change of code that locks or replaces state piece by piece, and of `equivalence.deadline`.
Limits: the moments at which Python handles signals are taken from its profiler: when functions begin, and
after calls of C.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import xgrammar

from equivalence import BudgetExceeded, MatcherError, Vocabulary, compute_classes, forks
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.healing import HealingMatcher
from hybrid.lark import FactoredClassifier
from tests.caches import wait_for
from tests.matchers import mask_of
from tests.test_artifact import TOKENS, VOCABULARY, masks_along
from tests.test_budget import LARK

ENDLESS = xgrammar.Grammar.from_ebnf('root ::= ("a" | "b")* "a" ' + '("a" | "b") ' * 40)
"""An automaton of 2**40 states: one kernel writes them down until it is stopped."""

MOST_STATES = 4_000_000
"""Takes some seconds and 2 GB if the signal has no effect."""

UNBOUNDED = Budget(seconds=None, states=MOST_STATES, bytes=2**40)
OURS = tuple(
    str(Path(module.__file__ or "").parent) for module in (sys.modules["equivalence"], sys.modules["hybrid"])
)


@pytest.fixture(autouse=True)
def python_hears() -> Iterator[None]:
    """Install Python's own handler of Ctrl-C; processes that run tests in parallel ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(after: float) -> None:
    """Send Ctrl-C some seconds from now."""
    threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()


class Injected(KeyboardInterrupt):
    """The exception that stands for Ctrl-C."""


class Injector:
    """Raises an interrupt at one of the moments at which Python may handle a signal, in our own code.

    Attributes:
        count: number of such moments so far.
    """

    def __init__(self, at: int = -1) -> None:
        self.at, self.count = at, 0

    def _look(self, frame: FrameType, event: str, called: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(OURS):
            if getattr(called, "__name__", None) == "__enter__":
                return  # a lock stays locked then, as docs/processes.md says of Python 3.14
            self.count += 1
            if self.count == self.at + 1:
                sys.setprofile(None)
                raise Injected

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count, or interrupt. The collector of garbage waits: what it calls is not part of the call."""
        gc.disable()
        try:
            sys.setprofile(self._look)
            yield
        finally:
            sys.setprofile(None)
            gc.enable()


def interrupted(begin: Callable[[], Callable[[], Any]], most: int, seed: int = 0) -> Iterator[bool]:
    """Make a call again and again, interrupted at each possible moment in turn, or at `most` random ones.

    What the process remembers makes later calls shorter: each call that ends says how many moments there are
    now.

    Yields:
        After each call, whether it was interrupted.
    """
    rng, made = random.Random(seed), 0
    injector = Injector()
    call = begin()
    with injector.at_work():
        call()
    moments = injector.count
    while made < min(most, moments):
        injector = Injector(made if moments <= most else rng.randrange(moments))
        made += 1
        call = begin()
        try:
            with injector.at_work():
                call()
        except Injected:
            yield True
        else:
            moments = injector.count
            yield False


def assert_nothing_is_locked() -> None:
    for kind in forks.Order:
        for lock in forks._alive(forks._registered[kind]):
            assert lock.acquire(True, 5), kind
            lock.release()


# --- In the middle of a kernel -----------------------------------------------------------------------------


def test_a_kernel_is_interrupted() -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=UNBOUNDED, on_budget="raise")
    for _ in range(2):
        press(0.3)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            compiler.compile_grammar(ENDLESS)
        assert time.monotonic() - began < 5
        assert_nothing_is_locked()
        assert compiler._memory._under_way == {}
    assert masks_along(compiler.compile_regex("a+b"), 1, 5)


def test_the_kernel_itself_looks_for_the_signal() -> None:
    """It does not wait until a table grows, which Python code does."""
    for _ in range(10):
        press(0.3)
        with pytest.raises(KeyboardInterrupt) as caught:
            compute_classes(ENDLESS, VOCABULARY, max_states=MOST_STATES)
        if any(entry.name.endswith("Stop.look") for entry in caught.traceback):
            return
    raise AssertionError("only growing tables were interrupted")


def test_a_matcher_without_a_time_limit_is_interrupted() -> None:
    ambiguous = '(("a"{0,500} "b"?){0,500} "c"?){0,500}'
    matcher = GrammarMatcher(GrammarCompiler(VOCABULARY).compile_grammar(f"root ::= {ambiguous}"))
    assert matcher.accept_string("aa")
    press(0.3)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        matcher.accept_string("a" * 5000)
    assert time.monotonic() - began < 5
    assert_nothing_is_locked()
    assert matcher._follower.text_read() == b"aa" and matcher.accept_string("ab")


def test_who_waits_can_be_interrupted() -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=UNBOUNDED, on_budget="raise")
    future = compiler.compile_grammar_async(ENDLESS)
    wait_for(lambda: bool(compiler._memory._under_way))
    press(0.1)
    with pytest.raises(KeyboardInterrupt):
        compiler.compile_grammar(ENDLESS)
    assert [one.n_callers for one in compiler._memory._under_way.values()] == [1], "it wants it no more"
    future.cancel()
    compiler.close()


def test_other_handlers_are_left_alone() -> None:
    """Any other handler of the signal is called when the kernel is done; nothing is stopped."""
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: called.append(number))
    for number in range(8):  # a table that grows in between calls the handler, too
        press(0.2 + 0.04 * number)
    compiler = GrammarCompiler(VOCABULARY, budget=replace(UNBOUNDED, seconds=0.6), on_budget="raise")
    with pytest.raises(BudgetExceeded, match="seconds"):
        compiler.compile_grammar(ENDLESS)
    wait_for(lambda: len(called) > 0)


def test_an_event_loop_gets_its_signals() -> None:
    """Ctrl-C during a kernel is one interrupt, also beside a loop's wake-up file; other signals get there."""

    async def compile_and_count() -> int:
        told: list[int] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, told.append, 1)
        for number in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            GrammarCompiler(VOCABULARY).compile_regex(f"a{number}")
            await asyncio.sleep(0.001)
        press(0.2)
        with pytest.raises(KeyboardInterrupt):
            GrammarCompiler(VOCABULARY, budget=UNBOUNDED, on_budget="raise").compile_grammar(ENDLESS)
        await asyncio.sleep(0.05)
        loop.remove_signal_handler(signal.SIGUSR1)
        return len(told)

    loop = asyncio.new_event_loop()  # `asyncio.run` has a handler of Ctrl-C of its own
    try:
        assert loop.run_until_complete(compile_and_count()) == 20
    finally:
        loop.close()


def test_other_threads_leave_the_signal_to_the_main_thread() -> None:
    """Their kernels go on until the deadline."""
    budget = replace(UNBOUNDED, seconds=0.8)
    with ThreadPoolExecutor(1) as pool:
        compiler = GrammarCompiler(VOCABULARY, budget=budget, on_budget="raise")
        future = pool.submit(compiler.compile_grammar, ENDLESS)
        press(0.3)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
        with pytest.raises(BudgetExceeded, match="the time limit was reached"):
            future.result(10)


# --- Wherever Python may hear of it ------------------------------------------------------------------------


COMPILING: dict[str, Callable[[GrammarCompiler], CompiledGrammar]] = {
    "a schema": lambda c: c.compile_json_schema({"type": "object", "properties": {"a": {"type": "string"}}}),
    "a grammar": lambda c: c.compile_grammar('root ::= "(" root ")" | [a-c]{2,4} root?', static=True),
    "ids": lambda c: c.compile_grammar('root ::= "a" Token(98, 99) root | ExcludeToken(97) "c"'),
    "Lark": lambda c: c.compile_lark(LARK.replace("\n", ' | "(" start ")" | "[" start "]"\n', 1)),
}


def compiling(name: str) -> Callable[[], Any]:
    compiler = GrammarCompiler(VOCABULARY, cache_limit_bytes=150_000)
    compiler.compile_regex("x{1,3}")  # is evicted from the full cache
    return lambda: (compiler, COMPILING[name](compiler))


def grow(compiled: CompiledGrammar, rng: random.Random) -> None:
    """Enlarge some tables, or fill them."""
    with compiled.classifier.lock:
        session = compiled.classifier.session
        # new stacks, so that tables are sometimes full
        if isinstance(compiled.classifier, FactoredClassifier):
            texts = [rng.choices([b"(", b"["], k=200)]
        else:
            letters = b"".join(rng.choices([b"(", b"ab("], k=400))
            texts = [[letters[skipped:]] for skipped in range(4)]
        for text in texts:
            at = session.start
            for part in text:
                at = session.store.advance_text(at, part)
                session.store.class_mask(at)


@pytest.mark.parametrize("name", COMPILING)
def test_a_compilation_leaves_nothing_half_made(name: str) -> None:
    wanted = masks_along(compiling(name)()[1], 1, 12)
    times = 0
    for was_interrupted in interrupted(lambda: compiling(name), 40):
        times += was_interrupted
        assert_nothing_is_locked()
        compiler, compiled = compiling(name)()
        assert compiler._memory._under_way == {}
        assert masks_along(compiled, 1, 12) == wanted
    assert times > 15


def test_no_other_error_replaces_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy parses the names of records' fields in Python, and raises `ValueError` if Ctrl-C comes there."""
    internal = pytest.importorskip("numpy._core._internal")

    def interrupt(_: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(internal, "_dtype_from_pep3118", interrupt)
    compiled = GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(
        'root ::= "(" root ")" | "x"'
    )
    assert mask_of(GrammarMatcher(compiled))


def test_equal_calls_go_on_after_an_interrupt() -> None:
    """A call for the same grammar that arrives meanwhile waits, or compiles the grammar itself."""
    make = COMPILING["a grammar"]
    wanted = masks_along(make(GrammarCompiler(VOCABULARY)), 1, 12)
    others: list[Future[CompiledGrammar]] = []
    with ThreadPoolExecutor(1) as pool:

        def begin() -> Callable[[], Any]:
            compiler = GrammarCompiler(VOCABULARY)

            def call() -> None:
                others.append(pool.submit(make, compiler))
                make(compiler)

            return call

        for _ in interrupted(begin, 40, seed=1):
            assert masks_along(others.pop().result(20), 1, 12) == wanted


@pytest.mark.parametrize("name", ["a schema", "a grammar", "Lark"])
def test_a_matcher_is_before_or_after_what_was_interrupted(name: str) -> None:
    """Interrupt any method at any moment, while tables grow and are discarded: the masks of the matcher
    follow the text that it says it has read."""
    rng = random.Random(name)
    compiled, calm = compiling(name)()[1], compiling(name)()[1]
    classifier = compiled.classifier
    ours: Any = GrammarMatcher(compiled)
    times = 0
    for turn in range(400):
        allowed = [token for token in mask_of(ours) if token not in VOCABULARY.stop_token_ids]
        token = rng.choice(allowed or [0])
        steps = ours._follower.n_steps
        act, *arguments = rng.choice([
            (ours.accept_token, token), (ours.accept_token, token), (mask_of, ours),
            (ours.accept_string, TOKENS[token]), (ours.rollback, rng.randrange(steps + 1)),
            (ours.find_jump_forward_string,), (ours.is_completed,), (ours.fork,),
            (ours.reset if steps > 25 else ours.fork,), (grow, compiled, rng),
        ])  # fmt: skip
        if turn % 50 == 49 or rng.random() < 0.2:
            with classifier.lock:
                classifier.renew()
        injector = Injector(int(rng.expovariate(1 / 8)))
        try:
            with injector.at_work():
                act(*arguments)
        except Injected:
            times += 1
        assert_nothing_is_locked()
        store = classifier.session.store
        if isinstance(classifier, FactoredClassifier):
            numbers = range(1, store.n_configurations, 1 + store.n_configurations // 8)
            assert [store.migrate_from(store, number) for number in numbers] == list(numbers)
        else:
            assert len(store.space.known_steps()) == len(store.space.known_facts()) == store.n_configurations
        text = ours._follower.text_read()
        fresh = GrammarMatcher(calm)
        assert fresh.accept_string(text) and mask_of(fresh) == mask_of(ours), text
        assert fresh.is_completed() == ours.is_completed()
    assert times > 120


SINGLE = [bytes([byte]) for byte in b'[]",:abx01 ']
STEPS = Vocabulary.from_bytes(
    [b"(", *SINGLE, b'["', b'",', b"ab", b"ba", b""], stop_token_ids=len(SINGLE) + 5
)
REPEATED = 'root ::= "(" | "a" root "b" | [ab]{2,6} | "x" root'
UNEQUAL = {"type": "array", "items": {"enum": ["a", "ab", "b", 1, 11]}, "uniqueItems": True}
MARKED = {"type": "array", "items": {"enum": ["a", "b"]}, "anyOf": [{"uniqueItems": True}, {"maxItems": 2}]}


def grammar_over_steps(strategy: str) -> CompiledGrammar:
    return GrammarCompiler(STEPS, strategy=strategy).compile_grammar(REPEATED)


def unequal(strategy: str, schema: Any) -> GrammarMatcher:
    compiler = GrammarCompiler(STEPS, strategy=strategy, semantics="json-schema")
    return GrammarMatcher(compiler.compile_json_schema(schema))


def limited(strategy: str) -> GrammarMatcher:
    matcher = GrammarMatcher(grammar_over_steps(strategy))
    matcher.limit_tokens(5)
    return matcher


WRAPPED: dict[str, Callable[[str], Any]] = {
    "plain": lambda strategy: GrammarMatcher(grammar_over_steps(strategy)),
    "limited": limited,
    "uniqueness": lambda strategy: unequal(strategy, UNEQUAL),
    "uniqueness marks": lambda strategy: unequal(strategy, MARKED),
    "healing": lambda strategy: HealingMatcher(grammar_over_steps(strategy), b"aba"),
}


def history(matcher: Any) -> list[Any]:
    """All that can be observed, here and after each step that is taken back."""
    twin, found = matcher.fork(), []
    while True:
        mask = None if twin.is_terminated() else mask_of(twin)
        found.append((mask, twin.is_completed(), getattr(twin, "tokens_left", 0), getattr(twin, "left", 0)))
        try:
            twin.rollback()
        except MatcherError:
            return found


@pytest.mark.parametrize("strategy", ["classifier", "engine"])
@pytest.mark.parametrize("name", WRAPPED)
def test_what_matchers_keep_beside_the_grammar_changes_with_it(name: str, strategy: str) -> None:
    rng, make = random.Random(name), WRAPPED[name]
    matcher, times = make(strategy), 0
    for _ in range(150):
        token = rng.choice([0] if matcher.is_terminated() else mask_of(matcher) or [0])
        before, after = history(matcher), matcher.fork()
        choices: list[tuple[str, list[Any]]] = [
            ("accept_token", [token]), ("accept_token", [token]), ("accept_string", [STEPS.tokens[token]]),
            ("rollback", [rng.randrange(len(before))]), ("reset" if len(before) > 8 else "is_completed", []),
        ]  # fmt: skip
        act, arguments = rng.choice(choices)
        getattr(after, act)(*arguments)
        try:
            with Injector(int(rng.expovariate(1 / 8))).at_work():
                getattr(matcher, act)(*arguments)
        except Injected:
            times += 1
        assert history(matcher) in (before, history(after)), (act, arguments)
    assert times > 50


@pytest.mark.parametrize("strategy", ["classifier", "engine"])
@pytest.mark.parametrize("name", WRAPPED)
def test_an_interrupted_tree_leaves_the_matcher_in_place(name: str, strategy: str) -> None:
    matcher, times, links = WRAPPED[name](strategy), 0, [torch.tensor([1, 2, -1]), torch.tensor([-1] * 3)]
    before = history(matcher)
    draft: list[int] = []
    twin = matcher.fork()
    while len(draft) < 2:
        draft.append(mask_of(twin)[0])
        assert twin.accept_token(draft[-1])
    tree = [*links, torch.tensor([0, *draft]), allocate_token_bitmask(3, STEPS.size)]

    def begin() -> Callable[[], Any]:
        return lambda: matcher.traverse_draft_tree(*tree, temperatures=torch.zeros(3))

    for was_interrupted in interrupted(begin, 200):
        times += was_interrupted
        assert history(matcher) == before
    assert times > 20
