"""Compiled grammars with valid digests and forged contents: each is refused with a clear error or harmless.

What: every array of files of grammars and of Lark grammars, with extreme numbers and other shapes; the text
of the grammar inside, number by number; files that would take much memory. Grammars that load are used in a
forked process.
When: after any change of `hybrid.files`, or of a kernel that relies on data from these files.
Limits: a small vocabulary. A person who can forge a compiled grammar decides what it allows, so the bits of
masks are not checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import xgrammar

from bench.forked import in_a_fork
from equivalence import ArtifactError, HybridError
from equivalence.network import dialect
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.files import from_bytes, to_bytes
from hybrid.files.checks import TEXTS
from tests.test_artifact import VOCABULARY, forged, opened, with_text
from tests.test_forged_files import EXTREMES, allocating_at_most, changes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SECONDS = 300.0

GRAMMAR = """root ::= "(" root ")" | [a-c]{2,4} list? | number "=" root
list ::= "[" (number ("," number)*)? "]"
number ::= "-"? [0-9]{1,300}
"""
LARK = """start: expr
expr: expr "+" term | term
term: NAME | NUMBER | "(" expr ")" | "if" expr "then" expr
NAME: /[a-z]+/
NUMBER: /[0-9]+/
COMMENT: "/*" /(.|\\n)*?/ "*/"
%ignore COMMENT
%ignore " "
"""


@cache
def compiled(kind: str) -> CompiledGrammar:
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier", on_demand=kind == "on demand")
    if kind == "lark":
        return compiler.compile_lark(LARK)
    return compiler.compile_grammar(GRAMMAR)


def outcomes(forged: list[tuple[str, Any]], use: Callable[[Any], str]) -> dict[str, str]:
    """Use each forged object in a forked process and return the outcomes; one that ends the process fails the
    test by name."""
    with tempfile.TemporaryFile() as told:

        def work() -> dict[str, str]:
            found = {}
            for label, thing in forged:
                os.pwrite(told.fileno(), label.encode().ljust(200), 0)
                try:
                    found[label] = use(thing)
                except HybridError as error:
                    found[label] = f"refused: {type(error).__name__}: {error}"
                except Exception as error:  # noqa: BLE001 - the test fails for it
                    found[label] = f"error: {type(error).__name__}: {error}"
            return found

        found = in_a_fork(work, SECONDS)
        last = os.pread(told.fileno(), 200, 0).decode().strip()
    assert found is not None, f"the process ended, or did not end, at {last}"
    wrong = [f"{label}: {outcome}" for label, outcome in found.items() if outcome.startswith("error")]
    assert not wrong, "\n".join(wrong[:20])
    return found


def refused(found: dict[str, str]) -> int:
    return sum(outcome.startswith("refused") for outcome in found.values())


def use_grammar(data: bytes) -> str:
    """Load a grammar, fill some masks and explain them; nested texts read the stack, and numbers use
    counters."""
    found = from_bytes(data, VOCABULARY)
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    # if it has to fall back, the grammar's text reveals the forgery
    with contextlib.suppress(AssertionError, HybridError):
        for text in (b"((ab[1,-2]", b"12=ab[]", b"if x then ((y", b"/* *"):
            matcher, read = GrammarMatcher(found), 0
            for byte in text:
                matcher.fill_next_token_bitmask(bitmask)
                if not matcher.accept_token(byte):
                    break
                read += 1
            if read:
                matcher.find_jump_forward_string()
                matcher.explain()
    return "loaded"


@pytest.mark.parametrize("kind", ["ahead", "on demand", "lark"])
def test_forged_arrays_of_compiled_grammars(kind: str) -> None:
    whole = to_bytes(compiled(kind))
    arrays = {name: array for name, array in opened(whole)[1].items() if name not in TEXTS}
    files = [("nothing", whole)]
    for name, array in arrays.items():
        files.append((f"{name} missing", forged(of=whole, **{name: None})))
        for label, changed in changes(array):
            files.append((f"{name} {label}", forged(of=whole, **{name: changed})))
    found = outcomes(files, use_grammar)
    assert found["nothing"] == "loaded"
    assert refused(found) > len(found) // 2
    # arrays of Lark grammars have only numbers of states, symbols and the like: no large ones
    large = [value for value in EXTREMES if abs(value) >= (2**20 if kind == "lark" else 2**32)]
    ends = ("missing", "another shape", *(f"] = {value}" for value in large))
    # a list of one mask has the other shape, too
    hopeless = [label for label in found if label.endswith(ends) and label != "masks another shape"]
    assert len(hopeless) > 300 or kind != "lark"
    assert [label for label in hopeless if not found[label].startswith("refused")] == []


def test_a_forged_text_of_a_lark_grammar_is_refused() -> None:
    whole = to_bytes(compiled("lark"))
    terminals = json.loads(bytes(opened(whole)[1]["grammar"]))[2]
    wrong_type = [[name, pattern, 1, False, False] for name, pattern, *_ in terminals]
    contents: list[Any] = [
        {}, [], ["a", "start"], ["a", 1, terminals], [1, "start", terminals], ["a", "start", terminals[1:]],
        ["a", "start", [["A"]]], ["a", "start", wrong_type],
    ]  # fmt: skip
    for text in (b"start", b"[" * 5000, b"\xff", *(json.dumps(one).encode() for one in contents)):
        with pytest.raises(ArtifactError, match="its grammar"):
            from_bytes(with_text(text, whole), VOCABULARY)


def test_kinds_that_are_there_many_times() -> None:
    """Repeated kinds are refused: scratch arrays have room for each kind once, so such a file wrote past
    their end."""
    whole = to_bytes(compiled("lark"))
    arrays = opened(whole)[1]
    many = {name: np.repeat(arrays[name], 3000) for name in ("top_kind", "top_color", "top_skip")}
    many["top_lengths"] = 3000 * arrays["top_lengths"].astype(np.int64)
    found = outcomes([("many", forged(of=whole, **many))], use_grammar)
    assert "the kinds of a state are not sorted" in found["many"]


def test_small_files_that_would_take_much_memory() -> None:
    """A file of some KB can describe a million empty lists of a million states, which took terabytes."""
    whole = to_bytes(compiled("lark"))
    arrays = opened(whole)[1]
    lists = np.concatenate([arrays["list_lengths"], np.zeros(10**6, np.int64)])
    states = np.concatenate([arrays["goto"], np.full((10**5, arrays["goto"].shape[1]), -1)])
    more = np.zeros((len(states) - len(arrays["goto"]), arrays["action"].shape[1]), np.int64)
    action = np.concatenate([arrays["action"], more])
    tops = np.concatenate([arrays["top_lengths"], np.zeros(len(more), np.int64)])
    bomb = forged(of=whole, list_lengths=lists, goto=states, action=action, top_lengths=tops)
    with pytest.raises(ArtifactError, match="lists of"):
        from_bytes(bomb, VOCABULARY)
    # narrow integers count with the width to which they are converted
    wide = forged(of=to_bytes(compiled("ahead")), final=np.zeros(4 * 10**7, np.uint8))
    with allocating_at_most(2 * 10**8), pytest.raises(ArtifactError, match=r"Budget\.table_bytes"):
        from_bytes(wide, VOCABULARY)


# --- The text of a grammar inside of one -------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to every part of a JSON value."""
    yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*path, name))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from places(part, (*path, number))


def replaced(text: str, path: tuple[Any, ...], other: Any) -> str:
    value = json.loads(text)
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = other
    return json.dumps(value)


def use_text(data: bytes) -> str:
    """Print the grammar and compile it again, as a matcher does that outgrows its classifier."""
    found = from_bytes(data, VOCABULARY)
    str(found.grammar)
    matcher = GrammarMatcher(found.fallback)
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    for byte in b"((ab[1,-2":
        matcher.fill_next_token_bitmask(bitmask)
        matcher.accept_token(byte)
    return "loaded"


TAGS = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [{"begin": "<f>", "content": {"type": "regex", "pattern": "[a-f]{2,5}"}, "end": "</f>"}],
    },
}


@pytest.mark.parametrize("kind", ["rules", "tags"])
def test_forged_texts_of_grammars(kind: str) -> None:
    """Forged numbers are refused: XGrammar reads numbers of any size, and crashes if it follows one that is
    out of range."""
    grammar = compiled("ahead").grammar if kind == "rules" else xgrammar.Grammar.from_structural_tag(TAGS)
    text, whole = grammar.serialize_json(), to_bytes(compiled("ahead"))
    files = [("nothing", with_text(text.encode(), whole))]
    values: tuple[Any, ...] = (-1, 0, 1, 7, 12, 2**31 - 1, 2**32 + 1, None, "x", [], True)
    for number, way in enumerate([way for way in places(json.loads(text)) if way]):
        for other in values[number % 5 :: 5] if kind == "rules" else values[number % 7 :: 7]:
            files.append((f"{way} = {other!r}", with_text(replaced(text, way, other).encode(), whole)))
    found = outcomes(files, use_text)
    assert found["nothing"] == "loaded"
    assert refused(found) > len(found) // 3


def test_texts_of_grammars_that_readers_disagree_on() -> None:
    text = compiled("ahead").grammar.serialize_json()
    for changed in (
        text[:-1] + ',"root_rule_id":1}',
        text[:-1] + ',"root_rule_\\u0069d":1}',
        "[" * 10**5,
        '{"rules":' * 2000 + "1" + "}" * 2000,
        "5",
        "null",
        text.replace(f'"{dialect.LAYOUT}"', '"v99"'),
        text[:-5],
    ):
        with pytest.raises(ArtifactError, match="grammar"):
            from_bytes(with_text(changed.encode(), to_bytes(compiled("ahead"))), VOCABULARY)


def test_a_grammar_that_xgrammar_has_compiled_is_written_without_its_automata() -> None:
    engine = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_grammar(GRAMMAR)
    data = to_bytes(GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(engine.grammar))
    loaded = from_bytes(data, VOCABULARY)
    assert '"optimized":true' in engine.grammar.serialize_json()
    assert str(loaded.grammar) == str(engine.grammar)
    assert use_text(data) == "loaded"
