"""Loading a vocabulary by one argument: ``tekken``, an ``.npz`` file or a Hugging Face tokenizer.

What: `load_vocabulary` turns such a SPEC into a `Vocabulary`.
When: used by the command line, the benchmarks and the tests. A program that has a tokenizer calls
`Vocabulary.from_huggingface`.
Limits: it reads tokenizers, never models. Only a Hugging Face id may need the network. Code in a repository
is never run.
"""

from __future__ import annotations

import base64
import binascii
import importlib.resources
import json
import os
import re
import textwrap
from pathlib import Path
from typing import Any

from equivalence.errors import VocabularyError
from equivalence.vocabulary import Vocabulary

__all__ = ["ALLOWED", "load_vocabulary"]

ALLOWED = (
    "'tekken' (131,072 ids, shipped by the package mistral-common), the path of an .npz file written by "
    "Vocabulary.save, or a Hugging Face tokenizer: a folder or an id such as 'Qwen/Qwen2.5-7B-Instruct'"
)
"""What a SPEC may be, for errors and the command line's help."""

TEKKEN_FILE = "tekken_240911.json"

TEKKEN_STOP_TOKEN_ID = 2
"""``</s>``. The file does not list special tokens; their order is fixed for this version of the file."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def load_vocabulary(spec: str) -> Vocabulary:
    """Load the vocabulary that `spec` names.

    Args:
        spec: ``tekken``; a path that ends in ``.npz``; a folder with a tokenizer; or a Hugging Face id. Write
            ``./tekken`` for a folder with that name.

    Raises:
        VocabularyError: there is nothing of that name, or it is not a vocabulary.
    """
    if not spec.strip():
        raise VocabularyError(f"{spec!r} does not name a vocabulary; pass {ALLOWED}")
    if spec == "tekken":
        return _load_tekken()
    path = Path(os.path.expanduser(spec))  # a name that no user has stays as it is
    if path.suffix == ".npz":
        return Vocabulary.load(path)
    if path.is_dir():
        return _load_huggingface(os.fspath(path))
    if path.exists():
        raise VocabularyError(f"{spec!r} is a file, but not an .npz file; pass {ALLOWED}")
    if not _HUB_ID.fullmatch(spec):
        raise VocabularyError(f"there is no file or folder {spec!r}; pass {ALLOWED}")
    return _load_huggingface(spec)


def _load_tekken() -> Vocabulary:
    """Load the vocabulary of Mistral's Tekken tokenizer: special ids first, then tokens in the order of
    ranks."""
    try:
        file = importlib.resources.files("mistral_common") / "data" / TEKKEN_FILE
        content = json.loads(file.read_bytes())
    except (ImportError, OSError, ValueError) as error:
        raise VocabularyError(
            f"'tekken' needs the file {TEKKEN_FILE} of the package mistral-common, which cannot be read "
            f'({error}): pip install "equimask[demo]"'
        ) from error
    try:
        size = int(content["config"]["default_vocab_size"])
        special = int(content["config"]["default_num_special_tokens"])
        # The file has more ranks than the models use, so the list is cut at the vocabulary's size.
        entries = content["vocab"][: size - special]
        ranks = [int(entry["rank"]) for entry in entries]
        tokens = [base64.b64decode(entry["token_bytes"], validate=True) for entry in entries]
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise VocabularyError(_not_tekken(repr(error))) from error
    if ranks != list(range(size - special)):
        raise VocabularyError(_not_tekken("ranks are missing or out of order"))
    return Vocabulary.from_bytes([b""] * special + tokens, stop_token_ids=TEKKEN_STOP_TOKEN_ID)


def _not_tekken(problem: str) -> str:
    return (
        f"{TEKKEN_FILE} of the installed mistral-common has an unexpected layout ({problem}); install "
        "the version that constraints.txt pins, or name another vocabulary"
    )


def _load_huggingface(name: str) -> Vocabulary:
    """Load the vocabulary of a tokenizer from `transformers`, as wide as the model's logits if that is
    known."""
    try:
        import transformers
    except ImportError as error:
        raise VocabularyError(
            f"{name!r} is a Hugging Face tokenizer, which needs transformers ({error}); "
            "install it with: pip install transformers"
        ) from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    # The loader raises errors of many types (missing files, network, formats).
    except Exception as error:
        problem = textwrap.shorten(str(error), 200) or type(error).__name__
        raise VocabularyError(
            f"transformers cannot load a tokenizer from {name!r} ({problem}); pass {ALLOWED}"
        ) from error
    return Vocabulary.from_huggingface(tokenizer, vocab_size=_logits_width(name, len(tokenizer)))


def _logits_width(name: str, tokenizer_size: int) -> int | None:
    """Return the model's vocabulary size; None if the configuration is missing, or has a smaller size.

    A model may have more logits than its tokenizer has tokens, and a mask must be as wide as the logits.
    """
    import transformers

    try:
        config: Any = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        size = config.get_text_config().vocab_size
    except Exception:  # noqa: BLE001 - the configuration is optional
        return None
    return size if isinstance(size, int) and size >= tokenizer_size else None
