"""`load_vocabulary`: a package's own vocabulary, files, Hugging Face folders, and invalid SPECs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers

from equivalence.errors import HybridError, VocabularyError
from equivalence.vocabulary import Vocabulary
from hybrid.cli import vocabulary_spec
from hybrid.cli.vocabulary_spec import load_vocabulary


def test_tekken(tekken: Vocabulary) -> None:
    assert tekken.size == 131_072
    assert tekken.stop_token_ids == (2,)
    assert tekken.special_token_ids == tuple(range(1000))
    assert {bytes([byte]) for byte in range(256)} <= set(tekken.tokens)
    assert b" the" in tekken.tokens


def test_tekken_is_the_one_of_the_corpora(tekken: Vocabulary, corpora: Path) -> None:
    other = Vocabulary.load(corpora / "tokenizers" / "mistral-tekken.vocab.npz")
    assert tekken.fingerprint == other.fingerprint
    assert tekken.special_token_ids == other.special_token_ids


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    vocabulary = Vocabulary.from_bytes([b"a", b"bc", b""], stop_token_ids=2)
    vocabulary.save(path)
    assert load_vocabulary(str(path)).fingerprint == vocabulary.fingerprint


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    """A Hugging Face tokenizer over single bytes, with an end-of-text token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = {character: number for number, character in enumerate(alphabet)} | {"<end>": 256}
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder = tmp_path / "bytes"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    return folder


def test_huggingface_folder(tokenizer_folder: Path) -> None:
    vocabulary = load_vocabulary(str(tokenizer_folder))
    assert vocabulary.size == 257
    assert vocabulary.stop_token_ids == (256,)
    assert set(vocabulary.tokens[:256]) == {bytes([byte]) for byte in range(256)}


@pytest.mark.parametrize(("width", "expected"), [(320, 320), (100, 257)])
def test_huggingface_folder_with_the_width_of_the_logits(
    tokenizer_folder: Path, width: int, expected: int
) -> None:
    config = {"model_type": "llama", "vocab_size": width}
    (tokenizer_folder / "config.json").write_text(json.dumps(config))
    vocabulary = load_vocabulary(str(tokenizer_folder))
    assert vocabulary.size == expected
    assert all(token == b"" for token in vocabulary.tokens[257:])


def test_huggingface_folder_of_the_corpora(corpora: Path) -> None:
    vocabulary = load_vocabulary(str(corpora / "hf" / "qwen2.5"))
    other = Vocabulary.load(corpora / "tokenizers" / "qwen2.5.vocab.npz")
    ordinary = 151_643  # the ids above are added tokens, which are text only here
    assert vocabulary.tokens[:ordinary] == other.tokens[:ordinary]
    assert vocabulary.stop_token_ids == (151_645,)


@pytest.mark.parametrize("spec", ["", "  ", "no/such/folder", "./nowhere", "/nowhere/at/all", "two words"])
def test_nothing_of_that_name(spec: str) -> None:
    with pytest.raises(VocabularyError, match="tekken") as caught:
        load_vocabulary(spec)
    assert repr(spec) in str(caught.value)
    assert isinstance(caught.value, HybridError)


def test_file_that_is_no_vocabulary(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("tokens")
    with pytest.raises(VocabularyError, match=r"is a file, but not an \.npz"):
        load_vocabulary(str(text))
    archive = tmp_path / "broken.npz"
    archive.write_bytes(b"tokens")
    with pytest.raises(VocabularyError, match="is not a vocabulary file"):
        load_vocabulary(str(archive))
    with pytest.raises(VocabularyError, match="is not a vocabulary file"):
        load_vocabulary(str(tmp_path / "missing.npz"))


def test_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="transformers cannot load a tokenizer"):
        load_vocabulary(str(tmp_path))


def test_unknown_huggingface_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, **_: object) -> None:
        raise OSError(f"{name} is not a local folder and there is no network\nmore lines")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", refuse)
    with pytest.raises(VocabularyError, match=r"'someone/something'.*no network more lines"):
        load_vocabulary("someone/something")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("{}", "has an unexpected layout"),
        ('{"config": {"default_vocab_size": 3, "default_num_special_tokens": 1}, "vocab": []}', "ranks"),
    ],
)
def test_tekken_file_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / vocabulary_spec.TEKKEN_FILE).write_text(content)
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    with pytest.raises(VocabularyError, match=problem):
        load_vocabulary("tekken")
