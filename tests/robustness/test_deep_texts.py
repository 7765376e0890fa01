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
from dataclasses import dataclass
from typing import Any

import pytest
import xgrammar

from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.testing.mask_comparison import compare_along
from hybrid.testing.segmentation import tokenize_greedy

WORDS = [b"foo", b"end", b'"}', b'{"', b'": ', b"true", b"aa", b"aaaa", b"((", b"))", b"[[", b"]]", b"else "]
VOCABULARY = Vocabulary.from_bytes(
    [bytes([value]) for value in range(256)] + [b"", *WORDS], stop_token_ids=[256]
)


@dataclass(frozen=True)
class DeepText:
    """A grammar (None: XGrammar's grammar of all JSON), and a text of it of about the given number of
    tokens."""

    name: str
    grammar: str | None
    text: Callable[[int], bytes]


def _document(size: int) -> bytes:
    rng = random.Random(0)

    def value(depth: int) -> Any:
        chance = rng.random()
        if depth > 6 or chance < 0.3:
            return rng.choice([1, 2.5, "abc", None, True, "x y z", -17e3])
        if chance < 0.65:
            return [value(depth + 1) for _ in range(rng.randrange(6))]
        names = [rng.choice("abcdefg") * rng.randrange(1, 5) + str(i) for i in range(rng.randrange(6))]
        return {name: value(depth + 1) for name in names}

    entries: list[str] = []
    while sum(map(len, entries)) < 3 * size:
        entries.append(json.dumps(value(0)))
    return f"[{', '.join(entries)}]".encode()


TEXTS = (
    DeepText("JSON document", None, _document),
    DeepText("JSON brackets", None, lambda n: b"[" * (n // 2) + b"]" * (n // 2)),
    DeepText("JSON objects", None, lambda n: b'{"a":' * (n // 2) + b"1" + b"}" * (n // 2)),
    DeepText("JSON in turn", None, lambda n: b'[{"a":' * (n // 2) + b"1" + b"}]" * (n // 2)),
    DeepText("ambiguous lists", 'root ::= e\ne ::= e e | "(" e ")" | "a" | "a" "a"',
     lambda n: b"a" * (4 * n)),
    DeepText("ambiguous sums", 'root ::= e\ne ::= e e | "(" e ")" | "a" | e "+" e',
     lambda n: b"(a+a" * (n // 2) + b")" * (n // 2)),
    DeepText("ambiguous ends", 'root ::= e\ne ::= "(" e ")" | e "+" e | e "*" e | "(" e ")" "!" | "a"',
     lambda n: b"(a+a*a)+" * (n // 8) + b"a" + b"+(a" * (n // 4) + b")" * (n // 4)),
    DeepText("dangling else", 'root ::= s\ns ::= "if" " " s ("else" " " s)? | "x;"',
     lambda n: b"if " * (n // 3) + b"x;" + b"else x;" * (n // 8)),
    DeepText("empty words", 'root ::= a+\na ::= b a b | b\nb ::= "x" | "x" b | ""', lambda n: b"x" * (4 * n)),
    DeepText("palindrome", 'root ::= "a" root "a" | "b" root "b" | ""',
     lambda n: b"ab" * (n // 2) + b"ba" * (n // 2)),
    DeepText("counter", 'root ::= ("a" | "b"){0,3000} "c"', lambda n: b"ab" * min(n, 1500) + b"c"),
    DeepText("nested counters", 'root ::= x{0,50}\nx ::= "[" x{0,50} "]" | "a"',
     lambda n: (b"[" + b"a" * 40) * (n // 12) + b"]" * (n // 12)),
    DeepText("ambiguous counter", 'root ::= ("a"{1,20} "b"?){0,500}', lambda n: b"aab" * min(n, 400)),
)  # fmt: skip


@pytest.mark.parametrize("size", [24, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_deep_texts(text: DeepText, size: int) -> None:
    def compiled(strategy: str) -> Any:
        compiler = GrammarCompiler(VOCABULARY, strategy=strategy, cache_enabled=False)
        if text.grammar is None:
            return compiler.compile_builtin_json_grammar()
        return compiler.compile_grammar(text.grammar)

    ids = tokenize_greedy(VOCABULARY, text.text(size))
    ours = compiled("classifier")
    found = compare_along(compiled("representatives"), ours, ids[:20])
    assert found.masks > 0 and found.differences == found.contradictions == []
    matcher = GrammarMatcher(ours)
    bitmask = xgrammar.allocate_token_bitmask(1, VOCABULARY.size)
    for place, token in enumerate(ids):
        matcher.fill_next_token_bitmask(bitmask)
        assert matcher.accept_token(token), place
    assert matcher.is_completed()
