"""Vocabularies: where they come from, which tokens are text, their files, and the arrays of their trie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xgrammar
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from adapters.grammars import compiled_grammars
from bench.lark_checks import may_be_text
from equivalence.errors import VocabularyError
from equivalence.trie import build_trie
from equivalence.trie.nodes import BELOW_OTHERS, ENDS, heights
from equivalence.vocabulary.vocabulary import MAX_IDS, MAX_TOKEN_BYTES, Vocabulary
from hybrid import Budget, GrammarCompiler, GrammarMatcher
from tests.byte_tokenizer import byte_tokenizer

EXAMPLES = 80

# --- From bytes ------------------------------------------------------------------------------------------


def test_text_special_and_padding() -> None:
    vocabulary = Vocabulary.from_bytes(
        [b"a", b"", b"<end>", b"b"], stop_token_ids=[2], special_token_ids=[2], vocab_size=6
    )
    assert vocabulary.tokens == (b"a", b"", b"", b"b", b"", b"")
    assert vocabulary.special_token_ids == (1, 2, 4, 5)
    assert vocabulary.stop_token_ids == (2,)
    assert vocabulary.size == len(vocabulary) == 6
    assert vocabulary.token_lengths.tolist() == [1, 0, 0, 1, 0, 0]
    assert vocabulary.trie.group_of_token.tolist() == [0, -1, -1, 1, -1, -1]
    assert repr(vocabulary).startswith("Vocabulary(6 ids, 2 text, stop [2], ")


def test_sizes_and_stop_ids_at_their_limits() -> None:
    """A smaller size cuts; stop ids keep their order and may be text; a token may be as long as allowed."""
    assert Vocabulary.from_bytes([b"a", b"b", b"c"], vocab_size=2).tokens == (b"a", b"b")
    stops = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=[2, 0])
    assert stops.stop_token_ids == (2, 0) and stops.tokens[0] == b"a"
    assert Vocabulary.from_bytes([b"x" * MAX_TOKEN_BYTES]).trie.longest == MAX_TOKEN_BYTES
    long = b"x" * (MAX_TOKEN_BYTES + 1)
    assert Vocabulary.from_bytes([long, b"a"], special_token_ids=[0]).tokens == (b"", b"a")


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        ([], {}, "must have from 1 to 16777216 ids, but has 0"),
        ([b"a"], {"vocab_size": 0}, "must have from 1 to 16777216 ids, but has 0"),
        ([b"a", "b"], {}, "token 1 must be bytes, but is of type str"),
        ([b"a", None], {}, "token 1 must be bytes, but is of type NoneType"),
        ([b"x" * (MAX_TOKEN_BYTES + 1)], {}, f"token 0 has {MAX_TOKEN_BYTES + 1} bytes"),
        ([b"a", b"b"], {"stop_token_ids": [2]}, "stop_token_ids contains 2, but ids must be from 0 to 1"),
        ([b"a", b"b"], {"stop_token_ids": np.int8(-1)}, "stop_token_ids contains -1, but"),
        ([b"a", b"b"], {"stop_token_ids": [1], "vocab_size": 1}, "stop_token_ids contains 1, but"),
        ([b"a", b"b"], {"special_token_ids": [5]}, "special_token_ids contains 5, but"),
        ([b"a", b"b"], {"special_token_ids": [0.5]}, "special_token_ids must be an integer, but is 0.5"),
        ([b"a", b"b"], {"stop_token_ids": ["<end>"]}, "stop_token_ids must be an integer, but is '<end>'"),
    ],
)
def test_errors(tokens: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message.replace("[", r"\[")):
        Vocabulary.from_bytes(tokens, **options)


# --- The fingerprint -------------------------------------------------------------------------------------

BASE: dict[str, Any] = {"tokens": [b"a", b"bc", b"", b"d"], "stop_token_ids": [2, 3]}


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"tokens": tuple(BASE["tokens"])}, True),
        ({"vocab_size": 4}, True),
        ({"special_token_ids": [2]}, True),
        ({"tokens": [b"a", b"bc", b"special", b"d"], "special_token_ids": [2]}, True),
        ({"tokens": [b"a", b"bd", b"", b"d"]}, False),
        ({"tokens": [b"ab", b"c", b"", b"d"]}, False),
        ({"tokens": [b"a", b"", b"bc", b"d"]}, False),
        ({"tokens": [b"a", b"bc", b"", b"d", b""]}, False),
        ({"vocab_size": 5}, False),
        ({"stop_token_ids": [2]}, False),
        ({"stop_token_ids": [3]}, False),
        ({"stop_token_ids": []}, False),
        ({"special_token_ids": [0]}, False),
    ],
)
def test_the_fingerprint_differs_where_something_matters(change: dict[str, Any], is_same: bool) -> None:
    base, changed = Vocabulary.from_bytes(**BASE), Vocabulary.from_bytes(**(BASE | change))
    assert (base.fingerprint == changed.fingerprint) == is_same


# --- Files -------------------------------------------------------------------------------------------------


def assert_equal(found: Vocabulary, wanted: Vocabulary) -> None:
    assert found.tokens == wanted.tokens
    assert found.stop_token_ids == wanted.stop_token_ids
    assert found.special_token_ids == wanted.special_token_ids
    assert found.fingerprint == wanted.fingerprint


@pytest.mark.parametrize(
    "vocabulary",
    [
        Vocabulary.from_bytes(**BASE, vocab_size=9),
        Vocabulary.from_bytes([b""]),
        Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [b"x" * 300], stop_token_ids=256),
    ],
)
def test_save_and_load(vocabulary: Vocabulary, tmp_path: Path) -> None:
    vocabulary.save(tmp_path / "a.npz")
    for path in (tmp_path / "a.npz", str(tmp_path / "a.npz")):
        assert_equal(Vocabulary.load(path), vocabulary)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_load_reads_the_described_layout(tmp_path: Path) -> None:
    lengths, one = np.array([1, 0, 2]), np.array([1])
    data = np.frombuffer(b"abc", np.uint8)
    np.savez(tmp_path / "a.npz", data=data, lens=lengths, stop_ids=one, special_ids=one)
    found = Vocabulary.load(tmp_path / "a.npz")
    assert found.tokens == (b"a", b"", b"bc")
    assert (found.stop_token_ids, found.special_token_ids) == ((1,), (1,))


# --- Hugging Face ------------------------------------------------------------------------------------------


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer like Qwen's: byte-level BPE; one added token is text and one ends generation."""
    tokenizer = byte_tokenizer("<|end|>", merges=["a b", "Ġ a", "Ã ©"])
    tokenizer.add_tokens(["<tool é>"])
    return tokenizer


def test_given_ids_are_never_text_or_stop() -> None:
    tokenizer = byte_level_tokenizer()
    vocabulary = Vocabulary.from_huggingface(tokenizer)
    last = vocabulary.size - 1
    without = Vocabulary.from_huggingface(tokenizer, special_token_ids=[last])
    assert without.special_token_ids == (*vocabulary.special_token_ids, last)
    assert without.tokens == (*vocabulary.tokens[:last], b"")
    assert vocabulary.has_same_ids(without) and without.has_same_ids(vocabulary)
    with pytest.raises(VocabularyError, match="special_token_ids"):
        Vocabulary.from_huggingface(tokenizer, special_token_ids=[vocabulary.size])
    for stops in (3, [3], np.int64(3)):
        assert Vocabulary.from_huggingface(tokenizer, stop_token_ids=stops).stop_token_ids == (3,)
    for stops in ([], [last, 3]):
        assert Vocabulary.from_huggingface(tokenizer, stop_token_ids=stops).stop_token_ids == tuple(stops)
    for wrong in (-1, last + 1, 1 << 32, 1 << 70):  # XGrammar drops -1, and reads 1 << 32 as 0
        with pytest.raises(VocabularyError, match=f"stop_token_ids contains {wrong}"):
            Vocabulary.from_huggingface(tokenizer, stop_token_ids=[wrong])
    for special in (3, None, [[1]]):
        with pytest.raises(VocabularyError, match="special_token_ids must be"):
            Vocabulary.from_huggingface(tokenizer, special_token_ids=special)


def test_ids_mean_the_same_only_with_equal_texts_sizes_and_stops() -> None:
    base: dict[str, Any] = {"tokens": [b"a", b"b", b""], "stop_token_ids": [2]}
    vocabulary = Vocabulary.from_bytes(**base)
    assert vocabulary.has_same_ids(Vocabulary.from_bytes([b"a", b"", b"<end>"], stop_token_ids=[2]))
    for change in ({"tokens": [b"a", b"c", b""]}, {"stop_token_ids": [1]}, {"vocab_size": 4}):
        assert not vocabulary.has_same_ids(Vocabulary.from_bytes(**(base | change)))


def test_grammars_of_one_call_have_the_same_ids_in_pairs() -> None:
    texts = ([b"a", b"", b""], [b"a", b"x", b""], [b"a", b"y", b""])
    compilers = [GrammarCompiler(Vocabulary.from_bytes(one, stop_token_ids=[2])) for one in texts]
    either, x, y = (compiler.compile_regex("a") for compiler in compilers)
    assert compiled_grammars([either, x]) == [either, x] and compiled_grammars([y, either]) == [y, either]
    for wrong in ([either, x, y], [x, either, y], [x, y]):
        with pytest.raises(VocabularyError, match="different vocabularies"):
            compiled_grammars(wrong)


def byte_fallback_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer like Gemma's: pieces with a visible space, and tokens for bytes that no piece spells."""
    special = ["<pad>", "<eos>", "<unk>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁a", "a", "é", "▁▁"]
    tokens = {piece: number for number, piece in enumerate(pieces)}
    merges = [("▁", "a"), ("▁", "▁")]
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=merges, byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>")


@pytest.mark.parametrize("make", [byte_level_tokenizer, byte_fallback_tokenizer])
def test_decoded_as_xgrammar_does(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    tokenizer = make()
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=300)
    vocabulary = Vocabulary.from_huggingface(tokenizer, vocab_size=300)
    assert vocabulary.size == info.vocab_size == 300
    special = set(info.special_token_ids)
    assert special | set(range(len(tokenizer), 300)) <= set(vocabulary.special_token_ids)
    decoded = [b"" if i in special else text for i, text in enumerate(info.decoded_vocab)]
    assert list(vocabulary.tokens[: len(decoded)]) == decoded


@pytest.mark.parametrize("tokenizer", [None, "gpt2", object()])
def test_not_a_tokenizer(tokenizer: Any) -> None:
    with pytest.raises(VocabularyError, match=r"Vocabulary\.from_bytes"):
        Vocabulary.from_huggingface(tokenizer)


@pytest.mark.parametrize("wrong", [-1, MAX_IDS, 2**40])
def test_ids_that_xgrammar_would_misread(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """An id below 0 replaces the last token, and a large one takes all memory."""
    tokenizer = byte_level_tokenizer()
    monkeypatch.setattr(type(tokenizer), "get_vocab", lambda self: {"a": 0, "b": 1, "c": wrong})
    with pytest.raises(VocabularyError, match=f"gives the token 'c' the id {wrong}"):
        Vocabulary.from_huggingface(tokenizer)
    if wrong > 0:
        assert Vocabulary.from_huggingface(tokenizer, vocab_size=2, stop_token_ids=[1]).size == 2
    else:
        with pytest.raises(VocabularyError, match="gives the token 'c' the id -1"):
            Vocabulary.from_huggingface(tokenizer, vocab_size=2)


def test_ids_that_need_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a fast tokenizer, if large ones are left out: reading them takes long."""
    tokenizer, check = byte_level_tokenizer(), Mock()
    monkeypatch.setattr("equivalence.vocabulary.vocabulary._check_ids", check)
    assert Vocabulary.from_huggingface(tokenizer, vocab_size=300).size == 300
    assert not check.called
    Vocabulary.from_huggingface(tokenizer)
    assert check.called


def test_xgrammar_sees_the_same_vocabulary() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"", b"b", b"a"], stop_token_ids=[1, 2], vocab_size=6)
    assert_equal(Vocabulary.from_tokenizer_info(vocabulary.tokenizer_info), vocabulary)


def test_tokens_are_read_that_xgrammar_gives_as_a_subclass_of_bytes() -> None:
    info = xgrammar.TokenizerInfo([b"[", b'"eight letters"', b"]", b"</s>"], stop_token_ids=[3])
    assert {type(text) for text in info.decoded_vocab} > {bytes}, "long ones are"
    vocabulary = Vocabulary.from_tokenizer_info(info)
    assert {type(text) for text in vocabulary.tokens} == {bytes}
    compiler = GrammarCompiler(vocabulary, semantics="json-schema", budget=Budget(mask_seconds=60.0))
    matcher = GrammarMatcher(compiler.compile_json_schema({"type": "array", "uniqueItems": True}))
    assert all(matcher.accept_token(token) for token in (0, 1, 2, 3))


# --- The trie ----------------------------------------------------------------------------------------------

BYTES = [*b"ab", 0, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0xFF]
TEXTS = [text.encode() for text in ["a", "é", "€", "😀", "߿", "ࠀ", "\U0010ffff", "\u20ac\u20ac"]]
TOKENS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(BYTES), max_size=5).map(bytes),
        st.lists(st.sampled_from(TEXTS), max_size=3).map(lambda parts: b"".join(parts)[:7]),
    ),
    max_size=12,
)


@pytest.mark.kernels
@settings(max_examples=EXAMPLES, deadline=None)
@given(TOKENS)
@example([b"\xed\xa0"])
@example([b"\xed\xa0\x80", b"\xed\x9f"])
def test_trie(tokens: list[bytes]) -> None:
    trie = build_trie(tokens)
    distinct = sorted(set(tokens) - {b""})
    assert trie.n_groups == len(distinct)
    assert trie.longest == max(map(len, distinct), default=0)
    assert trie.first_byte.tolist() == [token[0] for token in distinct]
    groups = {token: group for group, token in enumerate(distinct)}
    assert trie.group_of_token.tolist() == [groups.get(token, -1) for token in tokens]

    prefixes = sorted({token[:end] for token in distinct for end in range(len(token) + 1)} | {b""})
    assert len(trie.nodes) == len(prefixes) + 1
    rows: Any = np.rec.fromarrays(list(trie.nodes.T), names="child,group,group_end,bits,a,b,c,d")  # type: ignore[call-overload]
    waiting, met, height = [(0, b"")], 0, heights(trie.nodes)
    while waiting:
        row, prefix = waiting.pop()
        met += 1
        inside = [token for token in distinct if token.startswith(prefix)]
        assert distinct[rows[row].group : rows[row].group_end] == inside
        rests = [token[len(prefix) :] for token in inside if token != prefix]
        assert height[row] == max(map(len, rests), default=0)
        occurring = set(b"".join(rests))
        below = trie.nodes[row, 4:].view(np.uint64).tolist()
        assert {b for b in range(128) if below[b >> 6] >> (b & 63) & 1} == {b for b in occurring if b < 128}
        bits, children = int(rows[row].bits), range(rows[row].child, rows[row + 1].child)
        assert bits >> ENDS & 1 == (prefix in groups)
        assert bits >> BELOW_OTHERS & 1 == any(b >= 128 for b in occurring)
        assert bits >> BELOW_OTHERS + 1 == all(map(may_be_text, rests))
        longer = [prefix + bytes([rows[child].bits & 255]) for child in children]
        assert longer == [other for other in prefixes if other and other[:-1] == prefix]
        waiting.extend(zip(children, longer, strict=True))
    assert met == len(prefixes)
