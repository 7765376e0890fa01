"""`load_vocabulary`: a package's own vocabulary, files, Hugging Face folders, and invalid SPECs."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import transformers

from equivalence.errors import VocabularyError
from equivalence.vocabulary import Vocabulary
from hybrid.cli import vocabulary_spec
from hybrid.cli.vocabulary_spec import load_vocabulary
from tests.byte_tokenizer import byte_tokenizer


def test_tekken(tekken: Vocabulary) -> None:
    assert (tekken.size, tekken.stop_token_ids) == (131_072, (2,))
    assert tekken.special_token_ids == tuple(range(1000))
    assert {b" the", *(bytes([byte]) for byte in range(256))} <= set(tekken.tokens)


def test_tekken_is_the_one_of_the_corpora(tekken: Vocabulary, corpora: Path) -> None:
    other = Vocabulary.load(corpora / "tokenizers" / "mistral-tekken.vocab.npz")
    assert tekken.fingerprint == other.fingerprint
    assert tekken.special_token_ids == other.special_token_ids


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    """A Hugging Face tokenizer over single bytes, with an end-of-text token."""
    byte_tokenizer("<end>", []).save_pretrained(tmp_path / "bytes")
    return tmp_path / "bytes"


@pytest.mark.parametrize(("width", "size"), [(None, 257), (320, 320), (100, 257)])
def test_huggingface_folder_with_the_width_of_the_logits(
    tokenizer_folder: Path, width: int | None, size: int
) -> None:
    if width is not None:
        config = {"model_type": "llama", "vocab_size": width}
        (tokenizer_folder / "config.json").write_text(json.dumps(config))
    vocabulary = load_vocabulary(str(tokenizer_folder))
    assert (vocabulary.size, vocabulary.stop_token_ids) == (size, (256,))
    assert set(vocabulary.tokens[:256]) == {bytes([byte]) for byte in range(256)}
    assert not any(vocabulary.tokens[257:])


def test_huggingface_folder_of_the_corpora(corpora: Path) -> None:
    vocabulary = load_vocabulary(str(corpora / "hf" / "qwen2.5"))
    other = Vocabulary.load(corpora / "tokenizers" / "qwen2.5.vocab.npz")
    ordinary = 151_643  # the ids above are added tokens, which are text only here
    assert vocabulary.tokens[:ordinary] == other.tokens[:ordinary]
    assert vocabulary.stop_token_ids == (151_645,)


@pytest.mark.parametrize(
    "spec", ["", "  ", "no/such/folder", "./nowhere", "/nowhere/at/all", "two words", "~no-such-user/folder"]
)
def test_nothing_of_that_name(spec: str) -> None:
    with pytest.raises(VocabularyError, match="tekken") as caught:
        load_vocabulary(spec)
    assert repr(spec) in str(caught.value)


def test_files_and_folders(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"bc", b""], stop_token_ids=2)
    vocabulary.save(tmp_path / "small.npz")
    assert load_vocabulary(str(tmp_path / "small.npz")).fingerprint == vocabulary.fingerprint
    (tmp_path / "notes.txt").write_text("tokens")
    (tmp_path / "broken.npz").write_bytes(b"tokens")
    for name, message in (
        ("notes.txt", r"is a file, but not an \.npz"),
        ("broken.npz", "is not a vocabulary file"),
        ("missing.npz", "there is no vocabulary file"),
        (".", "transformers cannot load a tokenizer"),
    ):
        with pytest.raises(VocabularyError, match=message):
            load_vocabulary(str(tmp_path / name))


def test_unknown_huggingface_id(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=OSError("there is no local folder and no network\nmore lines"))
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
