"""Small documents, compiled and read to their ends: what ``test_plain.py`` runs compiled and as plain Python.

What: `all_results` compiles grammars of every kind, reads a document of each, and gives the classes and all
masks on the way; as a program it prints them, and from where the code was imported, as JSON.
When: ``python tests/plain_documents.py``; by ``test_plain.py``.
Limits: a made vocabulary of 50 ids. What the right masks are is asked elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import xgrammar

from equivalence import Vocabulary, compute_classes
from hybrid import BatchGrammarMatcher, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid import allocate_token_bitmask as allocate
from hybrid.classifier import store
from hybrid.drafts import DraftModel

ALL = '{}[]":,.0123456789abcdefgxyz-+() \\\n'
TOKENS = [character.encode() for character in ALL]
TOKENS += [b'{"', b'": ', b'", "', b'"a"', b"ab", b"12", b"}]", b" + ", b"(1", "é".encode(), b"\xc3", b"\xa9"]
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=STOP)

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"type": "string", "maxLength": 3}},
    },
    "required": ["a"],
    "additionalProperties": False,
}
LARK = """
start: "(" sum ")"
sum: term ("+" term)*
term: NUMBER | NAME | "(" sum ")" | "[" sum "]" | "{" sum "}" | "-" term | NAME "." NAME | NAME ":" term ","
NUMBER: /[0-9]+/
NAME: /[a-z]+/
%ignore " "
"""
CHARACTERS = 'start: r+ "1"\nr[max_chars=3]: /[a-zé]+ /\n'
"""Of XGrammar's dialect; what it counts is kept exact by classes of byte strings."""


def compiled_by(method: str, grammar: Any, strategy: str = "classifier", **options: Any) -> CompiledGrammar:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, cache_enabled=False, **options)
    compiled: CompiledGrammar = getattr(compiler, f"compile_{method}")(grammar)
    assert compiled.strategy == (strategy if strategy != "auto" else "classifier")
    return compiled


KINDS: dict[str, tuple[Callable[[], CompiledGrammar], str]] = {
    "schema": (lambda: compiled_by("json_schema", SCHEMA), '{"a": 12, "b": ["ab", "é"]}'),
    "schema walked": (lambda: compiled_by("json_schema", SCHEMA, "auto"), '{"a": 7, "b": ["abc", "é"]}'),
    "schema on demand": (lambda: compiled_by("json_schema", SCHEMA, on_demand=True), '{"a": -120}'),
    "schema by engine": (lambda: compiled_by("json_schema", SCHEMA, "representatives"), '{"a": 1, "b": []}'),
    "grammar": (lambda: compiled_by("grammar", 'root ::= "(" root ")" | [a-c]{1,9}'), "((abcab))"),
    "a word of classes": (lambda: compiled_by("grammar", f"root ::= {json.dumps(ALL)}"), ALL),
    "Lark": (lambda: compiled_by("lark", LARK), "(1 + ab+(12 +x.y) + [z: {1}, + -2])"),
    "Lark on demand": (lambda: compiled_by("lark", LARK, on_demand=True), "((ab) +1)"),
    "byte strings": (
        lambda: compiled_by("grammar", xgrammar.Grammar.from_lark(CHARACTERS), "representatives"),
        "éé ab 1",
    ),
}
"""How each is compiled, and its document."""


def ids_of(text: str) -> list[int]:
    """The longest token, again and again."""
    ids, left = [], text.encode()
    while left:
        ids.append(max(range(STOP), key=lambda i: len(TOKENS[i]) if left.startswith(TOKENS[i]) else 0))
        left = left[len(TOKENS[ids[-1]]) :]
    return ids


def read(compiled: CompiledGrammar, text: str) -> list[Any]:
    """The masks before each token and the text that is forced there; tokens are accepted as they say."""
    matcher, bitmask = GrammarMatcher(compiled), allocate(1, VOCABULARY.size)
    found: list[Any] = []
    ids = [*ids_of(text), STOP]
    for step, token in enumerate(ids):
        if step == len(ids) // 2 and compiled.classifier is not None:
            with compiled.classifier.lock:
                compiled.classifier.renew()  # the matcher brings its configuration over
        matcher.fill_next_token_bitmask(bitmask)
        found += [bitmask.tolist(), matcher.find_jump_forward_string()]
        bits = np.unpackbits(bitmask.numpy().view(np.uint8), bitorder="little")
        for other in range(VOCABULARY.size):
            assert matcher.accept_token(other) == bits[other], (text, step, other)
            if bits[other]:
                matcher.rollback(1)
        assert matcher.accept_token(token)
    assert matcher.is_terminated()
    matcher.rollback(len(ids) - 1)  # to where the first tables were
    matcher.fill_next_token_bitmask(bitmask)
    assert bitmask.tolist() == found[2]
    matcher.reset()
    assert matcher.accept_string(text) and matcher.is_completed() and not matcher.accept_string("\0")
    return found


def read_in_batches(compiled: list[CompiledGrammar], texts: list[str]) -> list[Any]:
    """The same for many at once, up to the end of the shortest document."""
    batch, matchers = BatchGrammarMatcher(), [GrammarMatcher(one) for one in compiled]
    bitmask = allocate(len(matchers), VOCABULARY.size)
    found: list[Any] = []
    for tokens in zip(*map(ids_of, texts), strict=False):
        batch.batch_fill_next_token_bitmask(matchers, bitmask)
        found.append(bitmask.tolist())
        assert batch.batch_accept_token([one.fork() for one in matchers], [STOP] * len(matchers)) == [
            one.is_completed() for one in matchers
        ]
        assert all(batch.batch_accept_token(matchers, list(tokens)))
    return found


def drafted(compiled: list[CompiledGrammar], texts: list[str]) -> list[Any]:
    """Drafts at each place of texts that are read three times."""
    found: list[Any] = []
    for one, text in zip(compiled, texts, strict=True):
        model = DraftModel(one)
        for _ in range(3):
            matcher = GrammarMatcher(one)
            for token in ids_of(text):
                found.append([model.propose(matcher, 6), *model.propose_tree(matcher, 5)])
                assert matcher.accept_token(token)
                model.learn(matcher)
    return found


def all_results() -> dict[str, Any]:
    compiled = {name: make() for name, (make, _) in KINDS.items()}
    assert compiled["byte strings"].classes.method == "byte strings"
    assert compiled["a word of classes"].classes.n_classes > 32
    results: dict[str, Any] = {name: read(one, KINDS[name][1]) for name, one in compiled.items()}
    for name, one in compiled.items():
        results[f"classes of {name}"] = one.classes.class_of_token.tolist()
    texts = [text for _, text in KINDS.values()]
    results["in batches"] = read_in_batches(list(compiled.values()), texts)
    # all of them on classifiers
    some = [name for name, one in compiled.items() if one.classifier is not None]
    results["by classifiers"] = read_in_batches(
        [compiled[name] for name in some], [KINDS[name][1] for name in some]
    )
    grammar = xgrammar.Grammar.from_ebnf('root ::= "a" root "b" | "ab" | [0-9]{1,4}')
    classes = compute_classes(grammar, VOCABULARY, relation="displacement")
    results["displacement"] = classes.class_of_token.tolist()
    results["drafts"] = drafted([compiled[name] for name in some], [KINDS[name][1] for name in some])
    return results


if __name__ == "__main__":
    json.dump({"from": store.__file__, "results": all_results()}, sys.stdout)
