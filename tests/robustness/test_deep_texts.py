"""Long, deep and ambiguous texts: the classifier reads them to the end, with the right masks on the way.

What: each text goes through the classifier of its grammar, token by token; its first masks are compared with
those of strategy "representatives".
When: after a change of how stacks are stored.
Limits: closing two thousand brackets reads two thousand new tails; that is due to the text's size, not growth
per step. XGrammar takes exponential time on some of these grammars, so few masks are compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from equivalence import Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.testing.mask_comparison import compare_along
from hybrid.testing.segmentation import tokenize_greedy
from tests.random_schemas import random_instance

WORDS = [b"foo", b"end", b'"}', b'{"', b'": ', b"true", b"aa", b"aaaa", b"((", b"))", b"[[", b"]]", b"else "]
VOCABULARY = Vocabulary.from_bytes([b"", *(bytes([value]) for value in range(256)), *WORDS], stop_token_ids=0)


def _document(size: int) -> bytes:
    rng, entries = random.Random(0), list[Any]()
    while len(text := json.dumps(entries)) < 3 * size:
        entries.append(random_instance(rng, 6))
    return text.encode()


TEXTS: dict[str, tuple[str | None, Callable[[int], bytes]]] = {
    "JSON document": (None, _document),
    "JSON brackets": (None, lambda n: b"[" * (n // 2) + b"]" * (n // 2)),
    "JSON objects": (None, lambda n: b'{"a":' * (n // 2) + b"1" + b"}" * (n // 2)),
    "JSON in turn": (None, lambda n: b'[{"a":' * (n // 2) + b"1" + b"}]" * (n // 2)),
    "ambiguous lists": ('root ::= e\ne ::= e e | "(" e ")" | "a" | "a" "a"',
     lambda n: b"a" * (4 * n)),
    "ambiguous sums": ('root ::= e\ne ::= e e | "(" e ")" | "a" | e "+" e',
     lambda n: b"(a+a" * (n // 2) + b")" * (n // 2)),
    "ambiguous ends": ('root ::= e\ne ::= "(" e ")" | e "+" e | e "*" e | "(" e ")" "!" | "a"',
     lambda n: b"(a+a*a)+" * (n // 8) + b"a" + b"+(a" * (n // 4) + b")" * (n // 4)),
    "dangling else": ('root ::= s\ns ::= "if" " " s ("else" " " s)? | "x;"',
     lambda n: b"if " * (n // 3) + b"x;" + b"else x;" * (n // 8)),
    "empty words": ('root ::= a+\na ::= b a b | b\nb ::= "x" | "x" b | ""', lambda n: b"x" * (4 * n)),
    "palindrome": ('root ::= "a" root "a" | "b" root "b" | ""',
     lambda n: b"ab" * (n // 2) + b"ba" * (n // 2)),
    "counter": ('root ::= ("a" | "b"){0,3000} "c"', lambda n: b"ab" * min(n, 1500) + b"c"),
    "nested counters": ('root ::= x{0,50}\nx ::= "[" x{0,50} "]" | "a"',
     lambda n: (b"[" + b"a" * 40) * (n // 12) + b"]" * (n // 12)),
    "ambiguous counter": ('root ::= ("a"{1,20} "b"?){0,500}', lambda n: b"aab" * min(n, 400)),
}  # fmt: skip
"""Grammars (None: XGrammar's grammar of all JSON), and texts of them of about the given number of tokens."""


@pytest.mark.parametrize("size", [24, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TEXTS)
def test_deep_texts(name: str, size: int) -> None:
    grammar, text = TEXTS[name]

    def compiled(strategy: str) -> Any:
        compiler = GrammarCompiler(VOCABULARY, strategy=strategy, cache_enabled=False)
        builtin = compiler.compile_builtin_json_grammar
        return builtin() if grammar is None else compiler.compile_grammar(grammar)

    ids = tokenize_greedy(VOCABULARY, text(size))
    ours = compiled("classifier")
    found = compare_along(compiled("representatives"), ours, ids[:20])
    assert found.masks > 0 and found.differences == found.contradictions == []
    matcher = GrammarMatcher(ours)
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    for place, token in enumerate(ids):
        matcher.fill_next_token_bitmask(bitmask)
        assert matcher.accept_token(token), place
    assert matcher.is_completed()
