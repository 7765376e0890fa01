"""Compiling the kernels ahead, and saying so when they compile in the middle of something else.

What: `warm_up` runs every kernel once on small inputs, which compiles those that numba has not cached;
`announce_compilation` logs one line when a kernel compiles outside of `warm_up`.
When: ``python -m hybrid warmup`` after an installation; the demonstration and the benchmarks call `warm_up`
before they measure. The package announces compilation from its import on.
Limits: kernels are cached per machine and version of the code (docs/caches.md). A kernel that `warm_up` does
not reach compiles on its first use; a test runs all cases after `warm_up` and finds such kernels.
"""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

import xgrammar

# only events of the compiler are read here; the kernels stay in their own files
from numba.core import event as compiler_events
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from equivalence import Vocabulary, compute_classes, forking
from equivalence.byte_classes import byte_string_classes
from equivalence.clock import hold, release

COMPILES = "numba:compile"
"""The compiler's event: a kernel is compiled, because no cache has it."""

PACKAGES = ("adapters", "equivalence", "hybrid")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "warm": {"type": "string", "minLength": 1, "maxLength": 5},
        "up": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "now": {"enum": ["yes", "no", 1, None]},
        "kind": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^([a-c]{2,4}d)+$"}]},
    },
    "required": ["warm"],
    "additionalProperties": {"type": "boolean"},
}
"""A schema with a bit of everything."""

GRAMMAR = """root ::= sum | ""
sum ::= sum "+" term | maybe sum "!" | term
maybe ::= "o"?
term ::= [0-9]{1,3} | "(" root ")" | other{2,}
other ::= [^a-z0-9+()!]
"""
"""Left recursion, direct and hidden, nullable rules, counters and characters beyond ASCII."""

logger = logging.getLogger(__name__)


class WarmUp(NamedTuple):
    """What a warm-up took: seconds, and the number of kernels that numba's cache did not have."""

    seconds: float
    compiled: int


def warm_up(progress: Callable[[str], None] | None = None) -> WarmUp:
    """Compile all kernels that are not compiled yet.

    Args:
        progress: called with the name of each kernel before it is compiled.
    """
    began = time.perf_counter()
    listener = _Listener(progress)
    _announcer.muted += 1
    try:
        with compiler_events.install_listener(COMPILES, listener):
            _run_every_kernel()
    finally:
        _announcer.muted -= 1
    return WarmUp(time.perf_counter() - began, listener.count)


def announce_compilation() -> None:
    """From now on, log one line as a warning when a kernel has to be compiled, once in a process.

    The clock of deadlines stands still meanwhile, whichever kernel is compiled, and a fork waits for it.
    Nothing is logged where numba's cache has the kernels, nor during `warm_up`. Calling this again changes
    nothing.
    """
    if not _announcer.installed:
        _announcer.installed = True
        register: Any = compiler_events.register  # it has no types
        register(COMPILES, _announcer)
        register(COMPILES, _Clock())
        lock = getattr(global_compiler_lock, "_lock", None)
        if lock is not None:
            forking.listed(lock, forking.Order.COMPILER)


def kernels() -> dict[str, Dispatcher]:
    """The kernels of the packages imported so far, by name; empty where numba is switched off."""
    return {
        f"{name}.{function}": value
        for name, module in sorted(sys.modules.items())
        if _is_ours(name)
        for function, value in vars(module).items()
        if isinstance(value, Dispatcher) and value.__module__ == name
    }


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in PACKAGES and module.endswith("._kernels")


class _Clock(compiler_events.Listener):
    """Lets the clock of deadlines stand still while a kernel is compiled."""

    def on_start(self, event: Any) -> None:
        hold()

    def on_end(self, event: Any) -> None:
        release()


class _Listener(compiler_events.Listener):
    """Counts the kernels of ours that are compiled, and tells the name of each before it is."""

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.progress = progress
        self.count = 0

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if _is_ours(function.__module__):
            self.count += 1
            if self.progress is not None:
                self.progress(f"{function.__module__.removesuffix('._kernels')}: {function.__name__}")

    def on_end(self, event: Any) -> None:
        """Nothing: a kernel counts when it begins."""


class _Announcer(_Listener):
    """Logs a line at the first kernel that is compiled while it is not muted."""

    def __init__(self) -> None:
        super().__init__(self._announce)
        self.installed = False
        self.muted = 0
        self.done = False

    def _announce(self, name: str) -> None:
        if not self.muted and not self.done:
            self.done = True
            logger.warning(
                "compiling kernels, once per machine; this can take some minutes "
                "(ahead of time: python -m hybrid warmup)"
            )


_announcer = _Announcer()


def _run_every_kernel() -> None:
    """Small inputs that reach every kernel with the types of arguments that real ones have."""
    # the package announces compilation, so it imports this module
    from hybrid import (
        BatchGrammarMatcher,
        CompiledGrammar,
        GrammarCompiler,
        GrammarMatcher,
        allocate_token_bitmask,
    )
    from hybrid.files import from_bytes, to_bytes
    from hybrid.lark import FactoredClassifier

    words = [bytes(word) for word in itertools.product(b'{}[]":,1a \\', repeat=3)]
    tokens = [*(bytes([value]) for value in range(256)), "\u00e9\u20ac".encode(), *words, b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1])
    compiler = GrammarCompiler(vocabulary, strategy="representatives", cache_enabled=False)
    classifying = GrammarCompiler(vocabulary, strategy="classifier", cache_enabled=False)
    bitmask = allocate_token_bitmask(1, vocabulary.size)

    def serve(compiled: CompiledGrammar) -> None:
        matcher = GrammarMatcher(from_bytes(to_bytes(compiled), vocabulary))
        matcher.fill_next_token_bitmask(bitmask)
        matcher.accept_token(next(token for token in range(256) if matcher.fork().accept_token(token)))
        matcher.accept_string(b"")
        matcher.find_jump_forward_string()
        classifier = matcher.compiled_grammar.classifier
        assert classifier is not None
        with classifier.lock:
            if isinstance(classifier, FactoredClassifier):
                classifier.session.store.grow(every=True)
            classifier.renew()
        matcher.fill_next_token_bitmask(bitmask)  # the matcher brings its stacks over
        together = [GrammarMatcher(matcher.compiled_grammar) for _ in range(2)]
        batch = BatchGrammarMatcher()
        for _ in range(2):  # new masks, and known ones
            batch.batch_fill_next_token_bitmask(together, allocate_token_bitmask(2, vocabulary.size))
        batch.batch_accept_token(together, [0, 1])

    for grammar in (
        xgrammar.Grammar.from_json_schema(SCHEMA, strict_mode=False),
        xgrammar.Grammar.from_ebnf(GRAMMAR),
        xgrammar.Grammar.builtin_json_grammar(),
        # large enough for the kernels that merge suffixes first
        xgrammar.Grammar.from_ebnf(
            (resources.files("hybrid") / "grammars" / "sql_like.gbnf").read_text("utf-8")
        ),
    ):
        matcher = GrammarMatcher(compiler.compile_grammar(grammar))
        matcher.fill_next_token_bitmask(bitmask)
        compute_classes(grammar, vocabulary, "displacement")
        serve(classifying.compile_grammar(grammar))
    serve(classifying.compile_lark((resources.files("hybrid") / "grammars" / "json.lark").read_text("utf-8")))
    byte_string_classes(xgrammar.Grammar.from_ebnf(GRAMMAR), vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary.save_walks(folder)
        Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1]).prepare(folder)
