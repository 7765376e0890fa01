"""Vocabularies: where they come from, which tokens are text, their files, and the arrays of their trie."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from adapters.grammars import compiled_grammars
from equivalence.classes import compute_classes
from equivalence.errors import VocabularyError
from equivalence.trie import build_trie
from equivalence.trie.nodes import BELOW_OTHERS, ENDS, NODE
from equivalence.vocabulary.vocabulary import MAX_TOKEN_BYTES, Vocabulary
from hybrid import GrammarCompiler

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


def test_a_smaller_size_cuts() -> None:
    assert Vocabulary.from_bytes([b"a", b"b", b"c"], vocab_size=2).tokens == (b"a", b"b")


def test_several_stop_ids_keep_their_order_and_may_be_text() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=[2, 0])
    assert vocabulary.stop_token_ids == (2, 0)
    assert vocabulary.tokens[0] == b"a"


def test_repr_names_the_sizes() -> None:
    assert repr(Vocabulary.from_bytes([b"a", b""], stop_token_ids=1)).startswith(
        "Vocabulary(2 ids, 1 text, stop [1], "
    )


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        ([], {}, "must have from 1 to 16777216 ids, but has 0"),
        ([b"a"], {"vocab_size": 0}, "must have from 1 to 16777216 ids, but has 0"),
        ([b"a"], {"vocab_size": "1"}, "vocab_size must be .*, but is '1'"),
        ([b"a"], {"vocab_size": True}, "vocab_size must be an integer, but is True"),
        ([b"a", "b"], {}, "token 1 must be bytes, but is of type str"),
        ([b"a", None], {}, "token 1 must be bytes, but is of type NoneType"),
        ([bytearray(b"a")], {}, "token 0 must be bytes, but is of type bytearray"),
        ([b"x" * (MAX_TOKEN_BYTES + 1)], {}, f"token 0 has {MAX_TOKEN_BYTES + 1} bytes"),
        ([b"a", b"b"], {"stop_token_ids": [2]}, "stop_token_ids contains 2, but ids must be from 0 to 1"),
        ([b"a", b"b"], {"stop_token_ids": np.int8(-1)}, "stop_token_ids contains -1, but"),
        ([b"a", b"b"], {"stop_token_ids": [1], "vocab_size": 1}, "stop_token_ids contains 1, but"),
        ([b"a", b"b"], {"special_token_ids": [5]}, "special_token_ids contains 5, but"),
        ([b"a", b"b"], {"special_token_ids": [0.5]}, "special_token_ids must be an integer, but is 0.5"),
        ([b"a", b"b"], {"stop_token_ids": [True]}, "stop_token_ids must be an integer, but is True"),
        ([b"a", b"b"], {"stop_token_ids": ["<end>"]}, "stop_token_ids must be an integer, but is '<end>'"),
    ],
)
def test_errors(tokens: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message.replace("[", r"\[")):
        Vocabulary.from_bytes(tokens, **options)


def test_a_long_token_may_be_listed_as_special() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b""], special_token_ids=[1])
    assert vocabulary.special_token_ids == (1,)
    longest = Vocabulary.from_bytes([b"x" * MAX_TOKEN_BYTES])
    assert longest.trie.longest == MAX_TOKEN_BYTES


# --- The fingerprint -------------------------------------------------------------------------------------

BASE: dict[str, Any] = {"tokens": [b"a", b"bc", b"", b"d"], "stop_token_ids": [2, 3]}


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": [b"a", b"bd", b"", b"d"]},
        {"tokens": [b"bc", b"a", b"", b"d"]},
        {"tokens": [b"ab", b"c", b"", b"d"]},
        {"tokens": [b"a", b"", b"bc", b"d"]},
        {"tokens": [b"a", b"bc", b"", b"d", b""]},
        {"vocab_size": 5},
        {"stop_token_ids": [2]},
        {"stop_token_ids": [3]},
        {"stop_token_ids": []},
        {"special_token_ids": [0]},
    ],
)
def test_the_fingerprint_differs_where_something_matters(change: dict[str, Any]) -> None:
    assert Vocabulary.from_bytes(**BASE).fingerprint != Vocabulary.from_bytes(**(BASE | change)).fingerprint


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"tokens": tuple(BASE["tokens"])},
        {"vocab_size": 4},
        {"special_token_ids": [2]},
        {"tokens": [b"a", b"bc", b"special", b"d"], "special_token_ids": [2]},
    ],
)
def test_the_fingerprint_is_equal_where_nothing_differs(same: dict[str, Any]) -> None:
    assert Vocabulary.from_bytes(**BASE).fingerprint == Vocabulary.from_bytes(**(BASE | same)).fingerprint


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
    path = tmp_path / "a.npz"
    vocabulary.save(path)
    assert_equal(Vocabulary.load(path), vocabulary)
    assert_equal(Vocabulary.load(str(path)), vocabulary)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_save_replaces_a_file_only_when_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    old = Vocabulary.from_bytes(**BASE)
    old.save(path)

    def fail(stream: Any, **arrays: Any) -> None:
        stream.write(b"PK")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="no space left"):
        Vocabulary.from_bytes([b"other"]).save(path)
    assert_equal(Vocabulary.load(path), old)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


ARRAYS: dict[str, Any] = {
    "data": np.frombuffer(b"abc", np.uint8),
    "lens": np.array([1, 0, 2]),
    "stop_ids": np.array([1]),
    "special_ids": np.array([1]),
}


def test_load_reads_the_described_layout(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **ARRAYS)
    found = Vocabulary.load(tmp_path / "a.npz")
    assert found.tokens == (b"a", b"", b"bc")
    assert (found.stop_token_ids, found.special_token_ids) == ((1,), (1,))


@pytest.mark.parametrize(
    "change",
    [
        {"lens": np.array([1, 1, 2])},
        {"lens": np.array([1, 1])},
        {"lens": np.array([4, -1])},
        {"lens": np.zeros(0, np.int64)},
        {"lens": np.array([[1, 2]])},
        {"lens": np.array(3)},
        {"lens": np.array(["1", "x", "2"])},
        {"stop_ids": np.array([3])},
        {"stop_ids": np.array(1)},
        {"special_ids": np.array([-1])},
        {"data": np.array([b"abc"], object)},
        {"stop_ids": np.array([{"a": 1}], object)},
    ],
    ids=str,
)
def test_malformed_files(change: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **(ARRAYS | change))
    with pytest.raises(VocabularyError):
        Vocabulary.load(tmp_path / "a.npz")


@pytest.mark.parametrize("missing", sorted(ARRAYS))
def test_missing_arrays(missing: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{name: value for name, value in ARRAYS.items() if name != missing})
    with pytest.raises(VocabularyError, match=missing):
        Vocabulary.load(tmp_path / "a.npz")


def a_file() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(
        stream, **(ARRAYS | {"data": np.arange(256).astype(np.uint8), "lens": np.array([256])})
    )
    return stream.getvalue()


def with_damaged_data(whole: bytes) -> bytes:
    """Overwrite the start of the first entry's data, which follows 30 bytes, its name and its extra field."""
    start = 30 + sum(struct.unpack("<HH", whole[26:30]))
    return whole[:start] + b"\xff" * 40 + whole[start + 40 :]


def single_array(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(a_file()[:-1], id="last byte missing"),
        pytest.param(a_file()[:200], id="cut in the middle"),
        pytest.param(a_file()[:10], id="first bytes only"),
        pytest.param(with_damaged_data(a_file()), id="damaged data"),
        pytest.param(b"", id="empty"),
        pytest.param(b"text", id="text"),
        pytest.param(single_array(np.arange(3)), id="single array"),
        pytest.param(single_array(np.array([{"a": 1}], object)), id="pickled"),
    ],
)
def test_truncated_and_foreign_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match="not a vocabulary file"):
        Vocabulary.load(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"none\.npz"):
        Vocabulary.load(tmp_path / "none.npz")
    with pytest.raises(VocabularyError):
        Vocabulary.load(tmp_path)


# --- Hugging Face ------------------------------------------------------------------------------------------

BYTE_LEVEL = ["a", "b", "ab", "Ġ", "Ġa", "Ċ", "Ã", "©", "Ã©", "!"]
BYTE_LEVEL_TEXT = [b"a", b"b", b"ab", b" ", b" a", b"\n", b"\xc3", b"\xa9", "é".encode(), b"!"]


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer like Qwen's: byte-level BPE; one added token is text and one ends generation."""
    tokens = {token: number for number, token in enumerate(BYTE_LEVEL)}
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=[("a", "b"), ("Ġ", "a"), ("Ã", "©")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens(["<tool é>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def test_byte_level_tokenizer() -> None:
    vocabulary = Vocabulary.from_huggingface(byte_level_tokenizer())
    assert list(vocabulary.tokens[:10]) == BYTE_LEVEL_TEXT
    assert vocabulary.size == 12
    assert vocabulary.stop_token_ids == (10,)
    assert vocabulary.tokens[11] == "<tool é>".encode()


def test_ids_that_are_never_text() -> None:
    vocabulary = Vocabulary.from_huggingface(byte_level_tokenizer())
    without = Vocabulary.from_huggingface(byte_level_tokenizer(), special_token_ids=[11])
    assert without.special_token_ids == (*vocabulary.special_token_ids, 11)
    assert without.tokens[:11] == vocabulary.tokens[:11] and without.tokens[11] == b""
    assert vocabulary.has_same_ids(without) and without.has_same_ids(vocabulary)
    with pytest.raises(VocabularyError, match="special_token_ids"):
        Vocabulary.from_huggingface(byte_level_tokenizer(), special_token_ids=[12])


def test_ids_mean_the_same_only_with_equal_texts_sizes_and_stops() -> None:
    tokens = [b"a", b"b", b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[2])
    assert vocabulary.has_same_ids(Vocabulary.from_bytes([b"a", b"", b"<end>"], stop_token_ids=[2]))
    for other, options in (
        ([b"a", b"c", b""], {"stop_token_ids": [2]}),
        (tokens, {"stop_token_ids": [1]}),
        (tokens, {"stop_token_ids": [2], "vocab_size": 4}),
    ):
        assert not vocabulary.has_same_ids(Vocabulary.from_bytes(other, **options))


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
    pieces = [
        "<pad>", "<eos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁a", "a", "é", "▁▁",
    ]  # fmt: skip
    tokens = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        models.BPE(vocab=tokens, merges=[("▁", "a"), ("▁", "▁")], byte_fallback=True, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<pad>", "<eos>", "<unk>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>")


def test_byte_fallback_tokenizer() -> None:
    vocabulary = Vocabulary.from_huggingface(byte_fallback_tokenizer())
    assert list(vocabulary.tokens[3:259]) == [bytes([byte]) for byte in range(256)]
    assert list(vocabulary.tokens[259:]) == [b" ", b" a", b"a", "é".encode(), b"  "]
    assert vocabulary.stop_token_ids == (1,)


@pytest.mark.parametrize("make", [byte_level_tokenizer, byte_fallback_tokenizer])
def test_decoded_as_xgrammar_does(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    tokenizer = make()
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=300)
    vocabulary = Vocabulary.from_huggingface(tokenizer, vocab_size=300)
    assert vocabulary.size == info.vocab_size == 300
    assert set(info.special_token_ids) <= set(vocabulary.special_token_ids)
    special = set(info.special_token_ids)
    decoded = [b"" if i in special else text for i, text in enumerate(info.decoded_vocab)]
    assert list(vocabulary.tokens[: len(decoded)]) == decoded
    assert set(range(len(tokenizer), 300)) <= set(vocabulary.special_token_ids)


@pytest.mark.parametrize("stops", [3, [3], np.int64(3)])
def test_given_stop_ids_replace_those_of_the_tokenizer(stops: Any) -> None:
    assert Vocabulary.from_huggingface(byte_level_tokenizer(), stop_token_ids=stops).stop_token_ids == (3,)


@pytest.mark.parametrize("tokenizer", [None, "gpt2", object()])
def test_not_a_tokenizer(tokenizer: Any) -> None:
    with pytest.raises(VocabularyError, match=r"Vocabulary\.from_bytes"):
        Vocabulary.from_huggingface(tokenizer)


def test_xgrammar_sees_the_same_vocabulary() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"", b"b", b"a"], stop_token_ids=[1, 2], vocab_size=6)
    info = vocabulary.tokenizer_info
    assert_equal(Vocabulary.from_tokenizer_info(info), vocabulary)


@pytest.mark.kernels
def test_a_vocabulary_without_text_has_no_classes() -> None:
    vocabulary = Vocabulary.from_bytes([b"", b""], stop_token_ids=1)
    found = compute_classes(xgrammar.Grammar.from_ebnf('root ::= "a"'), vocabulary)
    assert found.class_of_token.tolist() == [-1, -1]
    assert found.n_classes == 0


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


def cut_off_well_formed(text: bytes) -> bool:
    """Return whether some continuation makes the bytes valid UTF-8; surrogates are not valid."""
    for missing in range(4):
        for filler in (b"\x80", b"\xbf"):
            try:
                (text + filler * missing).decode("utf-8")
            except UnicodeDecodeError:
                continue
            return True
    return False


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
    assert trie.byte.size == len(prefixes)
    for node, prefix in enumerate(prefixes):  # byte order is depth-first order
        inside = [token for token in distinct if token.startswith(prefix)]
        assert trie.depth[node] == len(prefix)
        assert node == 0 or trie.byte[node] == prefix[-1]
        assert trie.skip[node] == node + sum(other.startswith(prefix) for other in prefixes)
        assert trie.group[trie.skip[node]] - trie.group[node] == len(inside)
        assert distinct[trie.group[node] : trie.group[trie.skip[node]]] == inside
        assert (trie.group[node + 1] > trie.group[node]) == (prefix in groups)
        rests = [token[len(prefix) :] for token in inside if token != prefix]
        occurring = set(b"".join(rests))
        assert {b for b in range(128) if trie.below[node, b >> 5] >> (b & 31) & 1} == {
            b for b in occurring if b < 128
        }
        assert trie.below[node, 4] & 1 == any(b >= 128 for b in occurring)
        assert bool(trie.below[node, 4] & 2) == all(map(cut_off_well_formed, rests))

    # the packed rows are the same nodes, children side by side
    numbers = {prefix: node for node, prefix in enumerate(prefixes)}
    assert len(trie.nodes) == len(prefixes) + 1
    rows: Any = np.rec.fromarrays(list(trie.nodes.T), names=NODE.replace(" ", ","))  # type: ignore[call-overload]
    waiting, met = [(0, b"")], 0
    while waiting:
        row, prefix = waiting.pop()
        met += 1
        node, child, end = numbers[prefix], rows[row].child, rows[row + 1].child
        bits = int(rows[row].bits)
        assert (rows[row].group, rows[row].group_end) == (trie.group[node], trie.group[trie.skip[node]])
        assert bits >> ENDS & 1 == (prefix in groups)
        assert bits >> BELOW_OTHERS == trie.below[node, 4]
        assert (trie.nodes[row, 4:].view(np.uint32) == trie.below[node, :4]).all()
        inside = [prefix + bytes([rows[below].bits & 255]) for below in range(child, end)]
        assert inside == [other for other in prefixes if other and other[:-1] == prefix]
        waiting.extend(zip(range(child, end), inside, strict=True))
    assert met == len(prefixes)


@pytest.mark.kernels
@settings(max_examples=EXAMPLES, deadline=None)
@given(TOKENS)
def test_suffix_trie(tokens: list[bytes]) -> None:
    trie = build_trie(tokens)
    distinct = sorted(set(tokens) - {b""})
    text = {0: b""}
    for suffix in range(1, trie.suffix_parent.size):
        parent = int(trie.suffix_parent[suffix])
        assert parent < suffix
        text[suffix] = bytes([trie.suffix_byte[suffix]]) + text[parent]
    assert sorted(text.values()) == sorted(
        {token[start:] for token in distinct for start in range(len(token))} | {b""}
    )
    assert [text[suffix] for suffix in trie.group_suffix.tolist()] == distinct
