"""Threads that share grammars, caches, draft models and tables, while these grow and are replaced.

What: several threads follow random texts of shared grammars, one of which has too little room for its tables;
propose and learn drafts, explain and complete these texts; compile the same schemas in both meanings; read
sizes and statistics; and clear caches. Each answer is compared with that of the same grammar compiled again,
and first masks with those of a single thread. In free-threaded Python, importing all compiled modules leaves
the GIL disabled.
When: after a change of state that threads share (docs/processes.md, "Threads"); above all in free-threaded
Python: ``make unit PYTHON=python3.14t``.
Limits: runs for some seconds. Such errors may take hours to appear; ThreadSanitizer finds more of them
(CONTRIBUTING.md).
"""

from __future__ import annotations

import random
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from equivalence import UnsupportedGrammar
from equivalence.deadline import Deadline
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, HybridError, Vocabulary
from hybrid.drafts import DraftModel
from tests.matchers import Sides, mask_of
from tests.new_process import printed_by
from tests.test_deadline import kernel

WORDS = [b'": ', b'", "', b'{"', b'"}', b"]}", b"true", b"null", b"12", b"ab", b"\xc3\xa9", b"  "]
TOKENS = [*(bytes([byte]) for byte in range(256)), *WORDS, b""]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=len(TOKENS) - 1)

UNIQUE = (
    '{"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 40}, "uniqueItems": true}'
)
SCHEMAS = [
    '{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}',
    UNIQUE,
    '{"type": "string", "format": "date-time"}',
    '{"type": "number", "multipleOf": 0.25, "minimum": -3}',
    '{"anyOf": [{"const": {"x": [1, 2]}}, {"type": "object", "required": ["y"], "minProperties": 2}]}',
    '{"type": "object", "patternProperties": {"^[a-f]+[0-9]{2,5}$": {"enum": [1, "two", null]}}}',
    '{"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}',
    '{"type": "no such type"}',
]

LARK = 'start: part+\npart: NAME "=" (NUMBER | "[" part* "]")\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "'
MEANINGS = ("xgrammar", "json-schema")
STEPS = 150
THREADS = 6


def first_mask(compiler: GrammarCompiler, schema: str) -> Any:
    try:
        return mask_of(GrammarMatcher(compiler.compile_json_schema(schema)))
    except HybridError as error:
        return type(error)


def follow(
    compiled: CompiledGrammar, again: CompiledGrammar, model: DraftModel, randomness: random.Random
) -> None:
    """Read a random text with matchers of a grammar that was compiled twice. They have to agree at each
    step."""
    sides = Sides(GrammarMatcher(compiled), GrammarMatcher(again), VOCABULARY.size)
    for _ in range(40):
        mask, twin = sides.mask(), sides.ours.fork()
        assert all(twin.accept_token(token) for token in model.propose(sides.ours, 3))
        assert sides.same("accept_token", randomness.choice(mask)) is True
        model.learn(sides.ours)
        if sides.same("is_terminated"):
            return
        sides.same("is_completed")
        if randomness.random() < 0.1:
            sides.same("explain")
            with suppress(UnsupportedGrammar):  # of Lark, or with items that must be unique
                left = len(sides.same("shortest_completion")) + 1
                assert mask_of(sides.ours, left) == mask_of(sides.plain, left)
            assert sides.same("rollback", 1) is None


def test_threads_share_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECONDS_HERE", "SECONDS_AT_TOKENS"):  # on a busy machine, one search could find less
        monkeypatch.setattr(f"hybrid.completion.plans.{name}", 60.0)
    alone, shared = (
        {meaning: GrammarCompiler(VOCABULARY, semantics=meaning) for meaning in MEANINGS} for _ in range(2)
    )
    expected = {(name, schema): first_mask(alone[name], schema) for name in MEANINGS for schema in SCHEMAS}
    narrow = GrammarCompiler(VOCABULARY, budget=Budget(table_bytes=1 << 18))
    roomy, on_demand = GrammarCompiler(VOCABULARY), GrammarCompiler(VOCABULARY, on_demand=True)
    on_engines = [GrammarCompiler(VOCABULARY, strategy=name) for name in ("representatives", "engine")]
    pairs: list[tuple[CompiledGrammar, CompiledGrammar]] = [
        (narrow.compile_builtin_json_grammar(), roomy.compile_builtin_json_grammar()),
        (on_demand.compile_builtin_json_grammar(), roomy.compile_builtin_json_grammar()),
        (shared["json-schema"].compile_json_schema(UNIQUE), alone["json-schema"].compile_json_schema(UNIQUE)),
        (on_demand.compile_lark(LARK), roomy.compile_lark(LARK)),
        *((one.compile_builtin_json_grammar(), roomy.compile_builtin_json_grammar()) for one in on_engines),
    ]
    followed = [(*pair, DraftModel(pair[0])) for pair in pairs]

    def compile_one(randomness: random.Random) -> None:
        meaning, schema = randomness.choice(MEANINGS), randomness.choice(SCHEMAS)
        assert first_mask(shared[meaning], schema) == expected[meaning, schema]

    def follow_one(randomness: random.Random) -> None:
        follow(*randomness.choice(followed), randomness)

    def look(randomness: random.Random) -> None:
        assert all(compiled.memory_size_bytes > 0 for compiled, _ in pairs)
        compiler = shared[randomness.choice(MEANINGS)]
        assert compiler.stats() and compiler.get_cache_size_bytes() >= 0
        if randomness.random() < 0.3:
            compiler.clear_cache()

    kinds: list[Callable[[random.Random], None]] = [compile_one, follow_one, look]

    def work(seed: int) -> None:
        randomness = random.Random(seed)
        for _ in range(STEPS):
            randomness.choices(kinds, (6, 3, 1))[0](randomness)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
    finally:
        sys.setswitchinterval(before)
    assert pairs[0][0].classifier.session.serial > 0  # replaced


def test_long_kernels_beside_quick_ones() -> None:
    """A quick kernel keeps the interpreter's lock; a long one releases it, and takes it again before it
    raises its error."""
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=False)
    schema = '{"type": "object", "properties": {"a": {"type": "string"}}}'
    expected = first_mask(compiler, schema)
    with ThreadPoolExecutor(3) as pool:
        kernels = [pool.submit(kernel, Deadline(0.5)) for _ in range(3)]
        while not all(one.done() for one in kernels):
            assert first_mask(compiler, schema) == expected
    assert all(one.result() > 0.4 for one in kernels)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has one lock")
def test_imports_leave_the_lock_off() -> None:
    program = """
import importlib, pathlib, sys
paths = [path for package in ("equivalence", "hybrid") for path in pathlib.Path(package).rglob("*.py")]
names = [".".join(path.with_suffix("").parts) for path in paths if path.read_text().startswith("# cython:")]
for name in names:
    importlib.import_module(name)
print(len(names) > 80, sys._is_gil_enabled())
"""
    assert printed_by(program) == "True False\n"
