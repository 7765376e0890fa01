"""Every family of XGrammar's structural tags for models has a classifier, and XGrammar's masks.

What: the tag of each family with and without reasoning, for one tool and three, and tags that begin and end
with a token id: masks are compared with plain XGrammar's along random tokens, before there are classes and
after.
Limits: a small vocabulary; `python -m tests.robustness.model_tags` has a real one, 128 tools and times.
"""

from __future__ import annotations

import random

import pytest
import xgrammar

from hybrid import GrammarCompiler, Vocabulary
from hybrid.testing.mask_comparison import compare_along
from tests.model_tags import FAMILIES, OF_TOKENS, path_of, pieces_of, tag_of
from tests.versions import ids_as_wholes

IDS = (307, 308, 309, 310)


def vocabulary_of(tags: list[str]) -> Vocabulary:
    """A vocabulary of all bytes, the parts of tags and their prefixes, and the tokens of `IDS`."""
    texts = {piece for tag in tags for piece in pieces_of(tag) if isinstance(piece, str)}
    texts |= {text[:n] for text in texts for n in (2, 3, len(text) // 2)}
    texts |= {'{"', '": "', "tool", "tool_1", " a"}
    tokens = [bytes([byte]) for byte in range(256)] + [b"word%d" % i for i in range(44)]
    named = [b"<call>", b"</call>", b"<think>", b"</think>"]
    tokens += [b"\xe4\xb8", b"\xff\xfe", b"\xb8a", "中".encode(), "中<".encode(), b"\xf0\x9f<", b"\xe4\xb8<t"]
    known = {*tokens, *named, b""}
    tokens += named + sorted({text.encode() for text in texts} - known) + [b"</s>"]
    return Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1])


@pytest.mark.parametrize("family", [*FAMILIES, pytest.param(OF_TOKENS, marks=ids_as_wholes)])
def test_families(family: str) -> None:
    rng = random.Random(family)
    for reasoning, n_tools in ((True, 1), (False, 3)):
        tag = tag_of(family, n_tools, reasoning, IDS)
        vocabulary = vocabulary_of([tag])
        ours = GrammarCompiler(vocabulary).compile_structural_tag(tag)
        assert ours.strategy == "classifier", ours.reason
        compiler = xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1, cache_enabled=False)
        plain = compiler.compile_structural_tag(tag)
        for number in range(3):
            path = path_of(plain, tag, vocabulary, rng, 40)
            assert len(path) >= 5, (family, n_tools, reasoning)
            found = compare_along(ours, plain, path)
            assert found.exact and found.masks > len(path), str(found.differences[:3])
            if number == 0:
                assert ours.classes is not None
