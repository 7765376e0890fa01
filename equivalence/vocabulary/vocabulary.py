"""The vocabulary: the bytes of each token id, and the ids without text.

What: the description of a tokenizer from which classes, masks and engines are computed.
When: make it once for each model and keep it. Its trie is built at first use, or by `prepare`, and shared.
Limits: ids are dense (0 .. size-1). A token's text is its raw bytes, never a decoded string.

An id is *text* if it has bytes and is not special. Special ids, empty tokens and ids beyond the tokenizer
(padding of the logits) are never allowed by a grammar of bytes, as in XGrammar. Here they have no bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equivalence import forks
from equivalence.arguments import integer, integer_from, integers, one_or_more, path_of, shown
from equivalence.array_files import Arrays, Unusable, read_arrays, write_arrays
from equivalence.errors import VocabularyError
from equivalence.runs import ByteOrder, byte_order
from equivalence.trie.trie import Trie, build_trie, read_only, side_by_side
from equivalence.walks.token_texts import TokenTexts
from equivalence.walks.walk_cache import WalkCache

if TYPE_CHECKING:
    import xgrammar

MAX_IDS = 1 << 24
"""Most ids: real vocabularies have fewer than 300,000, and each id takes memory."""

MAX_TOKEN_BYTES = 4096
"""Longest token: real ones have fewer than 400 bytes, and the trie is as deep as the longest token."""

FILE_BYTES = {"data": 2**26, "lens": 2**24, "stop_ids": 2**24, "special_ids": 2**24}
"""Largest arrays in a file, in bytes: 64 MiB of text, and two million ids as int64. Real ones have 2 MiB for
262,144 ids. A compressed file of 200 KB may contain that much."""


@forks.with_unlocked_properties
class Vocabulary:
    """The bytes of each token id, with stop ids, special ids and the padding of the logits.

    Make one with `from_huggingface`, `from_bytes` or `load`. Instances are immutable.

    Attributes:
        tokens: the bytes of each id, ``b""`` for ids without text; length ``size``.
        size: number of ids, which is the number of logits, including padding.
        stop_token_ids: the ids that end generation, in the order given.
        special_token_ids: all ids without text, ascending, including empty tokens and padding.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        stop_token_ids: Sequence[int],
        special_token_ids: Iterable[int],
        vocab_size: int | None = None,
    ) -> None:
        try:
            given = list(tokens)
        except TypeError as error:
            raise VocabularyError(f"tokens must be a list of bytes, but is {shown(tokens)}") from error
        size = len(given) if vocab_size is None else integer(vocab_size, "vocab_size", VocabularyError)
        if not 1 <= size <= MAX_IDS:
            raise VocabularyError(f"a vocabulary must have from 1 to {MAX_IDS} ids, but has {size}")
        given = given[:size]
        given.extend([b""] * (size - len(given)))
        for token_id in _ids(special_token_ids, size, "special_token_ids"):
            given[token_id] = b""
        for token_id, token in enumerate(given):
            if not isinstance(token, bytes):
                raise VocabularyError(
                    f"token {token_id} must be bytes, but is of type {type(token).__name__}; encode "
                    "text, or use Vocabulary.from_huggingface"
                )
            if len(token) > MAX_TOKEN_BYTES:
                raise VocabularyError(
                    f"token {token_id} has {len(token)} bytes, but the limit is {MAX_TOKEN_BYTES}; "
                    "list such ids in special_token_ids"
                )
            if type(token) is not bytes:  # as XGrammar's of 8 bytes and more, which compiled code refuses
                given[token_id] = bytes(token)
        self.tokens: tuple[bytes, ...] = tuple(given)
        self.size: int = size
        self.stop_token_ids: tuple[int, ...] = _ids(stop_token_ids, size, "stop_token_ids")
        self.special_token_ids: tuple[int, ...] = tuple(i for i, token in enumerate(given) if not token)

    @classmethod
    def from_bytes(
        cls,
        tokens: Sequence[bytes],
        *,
        stop_token_ids: Sequence[int] | int = (),
        special_token_ids: Iterable[int] = (),
        vocab_size: int | None = None,
    ) -> Vocabulary:
        """Make a vocabulary from the raw bytes of each id.

        Args:
            tokens: the bytes of each id; ``b""`` for an id without text.
            stop_token_ids: the ids that end generation. They may have text, too.
            special_token_ids: ids that are never text; their bytes are ignored.
            vocab_size: number of logits, if it is not ``len(tokens)``. A larger number adds ids that are
                never allowed, a smaller one removes ids.

        Raises:
            VocabularyError: a token is not bytes, an id is out of range, or the vocabulary is empty.
        """
        stops = one_or_more(stop_token_ids, "stop_token_ids", VocabularyError)
        return cls(tokens, stops, special_token_ids, vocab_size)

    @classmethod
    def from_tokenizer_info(cls, info: xgrammar.TokenizerInfo) -> Vocabulary:
        """Make the vocabulary that an `xgrammar.TokenizerInfo` describes."""
        words = getattr(info, "decoded_vocab", None)  # XGrammar makes a new list each time
        if words is None:
            raise VocabularyError(f"info must be an xgrammar.TokenizerInfo, but is {shown(info)}")
        return cls(
            list(words),
            tuple(info.stop_token_ids),
            info.special_token_ids,
            info.vocab_size,
        )

    @classmethod
    def from_huggingface(
        cls,
        tokenizer: Any,
        *,
        vocab_size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        special_token_ids: Iterable[int] = (),
    ) -> Vocabulary:
        """Make the vocabulary of a Hugging Face tokenizer. XGrammar's `TokenizerInfo` decodes it.

        Added tokens such as ``<|im_start|>`` are text, as they are for XGrammar, unless they are listed in
        `special_token_ids`: a grammar may allow them inside of a string.

        XGrammar decodes tokens that are byte-level, or that have tokens for bytes (byte fallback). It takes
        all others as they are written: ``##ing`` of WordPiece, ``▁the`` of Unigram without byte fallback.
        Then masks do not fit the texts that the tokenizer decodes.

        Args:
            tokenizer: a `transformers` tokenizer (fast, tiktoken or sentencepiece).
            vocab_size: number of the model's logits, if it is not the tokenizer's size.
            stop_token_ids: the ids that end generation; by default the tokenizer's ``eos_token_id``.
            special_token_ids: more ids that are never text, such as ``tokenizer.all_special_ids``.

        Raises:
            VocabularyError: XGrammar cannot tell what kind of tokenizer it is; or an id is out of range.
        """
        import xgrammar

        if vocab_size is not None:
            vocab_size = integer_from(1, vocab_size, "vocab_size", VocabularyError, MAX_IDS)
        stops = None
        if stop_token_ids is not None:
            stops = one_or_more(stop_token_ids, "stop_token_ids", VocabularyError)
        special = integers(special_token_ids, "special_token_ids", VocabularyError)
        try:
            if vocab_size is None or not _has_rust_ids(tokenizer):
                _check_ids(tokenizer.get_vocab(), vocab_size)
            info = xgrammar.TokenizerInfo.from_huggingface(
                tokenizer,
                vocab_size=vocab_size,
                # any that it takes: it drops ids out of range, or makes others of them
                stop_token_ids=None if stops is None else [0],
            )
        except VocabularyError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise VocabularyError(
                f"XGrammar cannot read a tokenizer of type {type(tokenizer).__name__} ({error}); "
                "pass a tokenizer that transformers.AutoTokenizer.from_pretrained returned, or the bytes "
                "of each id to Vocabulary.from_bytes"
            ) from error
        return cls(
            list(info.decoded_vocab),
            tuple(info.stop_token_ids) if stops is None else stops,
            {*info.special_token_ids, *special},
            info.vocab_size,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a vocabulary that `save` wrote.

        The file is an ``.npz`` with the arrays ``data`` (uint8: the bytes of all ids in order), ``lens``
        (bytes of each id), ``stop_ids`` and ``special_ids``. It need not be trusted: nothing is unpickled,
        and sizes are checked before memory is allocated.

        Args:
            path: the file.

        Raises:
            VocabularyError: the file is missing, has another layout, is larger than `FILE_BYTES`, or its
                lengths do not fit its data.
        """
        path = path_of(path, "path", VocabularyError)
        try:
            arrays = read_arrays(path, FILE_BYTES)
        except FileNotFoundError as error:
            raise VocabularyError(f"there is no vocabulary file {os.fspath(path)!r}") from error
        except (OSError, ValueError, Unusable) as error:
            raise VocabularyError(
                f"{os.fspath(path)!r} is not a vocabulary file ({error}); it must be an .npz file with "
                "the arrays data, lens, stop_ids and special_ids"
            ) from error
        try:
            return cls(*_texts_and_ids(arrays))
        except VocabularyError as error:
            raise VocabularyError(f"{os.fspath(path)!r}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `load` can read. The write is atomic.

        Raises:
            VocabularyError: `path` is no path.
            OSError: the file cannot be written.
        """
        arrays: Arrays = {
            "data": np.frombuffer(b"".join(self.tokens), np.uint8),
            "lens": self.token_lengths.astype(np.uint16),  # `MAX_TOKEN_BYTES` fits
            "stop_ids": np.array(self.stop_token_ids, np.int32),
            "special_ids": np.array(self.special_token_ids, np.int32),
        }
        write_arrays(path_of(path, "path", VocabularyError), arrays, compressed=True)

    def prepare(self) -> Vocabulary:
        """Compute now what the first grammar would wait for, and return this vocabulary."""
        _ = self.byte_order
        return self

    def __copy__(self) -> Vocabulary:
        return self  # it is immutable

    def __deepcopy__(self, memo: Any) -> Vocabulary:
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("tokenizer_info", None)  # XGrammar cannot pickle it
        for name in ("walk_cache", "token_texts"):
            state.pop(name, None)
        state.pop("byte_order", None)  # computing it takes less time than sending it
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "trie" in state:  # pickling loses the read-only flag of arrays
            read_only(state["trie"])

    @cached_property
    def fingerprint(self) -> str:
        """A hexadecimal digest (BLAKE2b, 128 bits) of everything that masks depend on."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.token_lengths, np.array(self.stop_token_ids, np.int64)):
            digest.update(np.int64(part.size).tobytes())
            digest.update(part.tobytes())
        digest.update(b"".join(self.tokens))
        return digest.hexdigest()

    def has_same_ids(self, other: Vocabulary) -> bool:
        """Whether ids mean the same in another vocabulary, except that some may be special in only one."""
        if self.fingerprint == other.fingerprint:
            return True
        if self.size != other.size or self.stop_token_ids != other.stop_token_ids:
            return False
        pairs = zip(self.tokens, other.tokens, strict=True)
        return all(one == another or not one or not another for one, another in pairs)

    @cached_property
    def token_lengths(self) -> NDArray[np.int64]:
        """int64[size]: the length of each token in bytes, 0 for ids without text."""
        return np.diff(self.flat[1])

    @cached_property
    def flat(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of all ids in order (uint8), and the bounds of each id's bytes (int64[size + 1])."""
        return side_by_side(self.tokens)

    @cached_property
    def trie(self) -> Trie:
        """The flat trie of all ids with text. Its arrays are read-only."""
        return build_trie(self.tokens)

    @cached_property
    def byte_order(self) -> ByteOrder:
        """The ids in the order of the trie, in which classes are numbered (5 MiB for 128,000 ids)."""
        return byte_order(self.trie, self.token_lengths, self.stop_token_ids)

    @cached_property
    def token_texts(self) -> TokenTexts:
        """The trie and the texts of all ids, as walks read them."""
        return TokenTexts(self.trie.nodes, self.trie.longest, self.flat, self.byte_order)

    @cached_property
    def walk_cache(self) -> WalkCache:
        """A cache of walks for masks, for later grammars; see docs/caches.md."""
        return WalkCache(4 * ((self.size + 31) // 32))

    @cached_property
    def tokenizer_info(self) -> xgrammar.TokenizerInfo:
        """This vocabulary for plain XGrammar, for strategy "engine" and for comparisons."""
        import xgrammar

        return xgrammar.TokenizerInfo(
            list(self.tokens),
            xgrammar.VocabType.RAW,
            vocab_size=self.size,
            stop_token_ids=list(self.stop_token_ids),
        )

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return (
            f"Vocabulary({self.size} ids, {self.size - len(self.special_token_ids)} text, "
            f"stop {list(self.stop_token_ids)}, {self.fingerprint[:8]})"
        )


def _texts_and_ids(arrays: Arrays) -> tuple[list[bytes], list[int], list[int]]:
    """The tokens, stop ids and special ids from the arrays of a file.

    Raises:
        VocabularyError: arrays have other types or shapes, or numbers do not fit.
    """
    for name, array in arrays.items():
        allowed = "u" if name == "data" else "iu"
        # numpy makes an array of floats from an empty list
        if array.ndim != 1 or not (array.dtype.kind in allowed or (name != "data" and not array.size)):
            raise VocabularyError(
                f"`{name}` must be a list of {'uint8' if name == 'data' else 'integers'}, but has type "
                f"{array.dtype} and shape {array.shape}"
            )
    data, given = arrays["data"], arrays["lens"]
    if data.dtype != np.uint8:
        raise VocabularyError(f"`data` must have type uint8, but has {data.dtype}")
    # compared before converting: a number that does not fit int64 must not become another one
    wrong = np.flatnonzero((given < 0) | (given > MAX_TOKEN_BYTES))
    if len(wrong):
        raise VocabularyError(
            f"token {wrong[0]} must have from 0 to {MAX_TOKEN_BYTES} bytes, but has {given[wrong[0]]}"
        )
    ends = np.cumsum(given.astype(np.int64))
    if (ends[-1] if len(ends) else 0) != len(data):
        raise VocabularyError(f"the lengths in `lens` do not add up to the {len(data)} bytes of `data`")
    text = data.tobytes()
    tokens = [text[begin:end] for begin, end in itertools.pairwise([0, *ends.tolist()])]
    return tokens, arrays["stop_ids"].tolist(), arrays["special_ids"].tolist()


def _ids(values: Iterable[int], size: int, name: str) -> tuple[int, ...]:
    """The distinct ids in the order given, each checked against the size."""
    ids = dict.fromkeys(integers(values, name, VocabularyError))
    for token_id in ids:
        if not 0 <= token_id < size:
            raise VocabularyError(f"{name} contains {token_id}, but ids must be from 0 to {size - 1}")
    return tuple(ids)


def _has_rust_ids(tokenizer: Any) -> bool:
    """Whether the ids are those of a tokenizer in Rust, so that none is below 0. Then they need no check if
    large ones are left out; making their table takes a fifth of the time to read the tokenizer."""
    maker = getattr(getattr(type(tokenizer), "get_vocab", None), "__module__", None) or ""
    return bool(getattr(tokenizer, "is_fast", False)) and maker.startswith("transformers.")


def _check_ids(ids: Mapping[str, int], vocab_size: int | None) -> None:
    """Refuse ids for which XGrammar would replace the token of another id, or use up the memory.

    Args:
        ids: the id of each token.
        vocab_size: ids from here on are left out; None: all are kept.
    """
    for found in (min(ids.values(), default=0), max(ids.values(), default=0)):
        if found < 0 or (vocab_size is None and found >= MAX_IDS):
            token = next(token for token, number in ids.items() if number == found)
            raise VocabularyError(
                f"the tokenizer gives the token {shown(token)} the id {found}, but ids must be from 0 to "
                f"{MAX_IDS - 1}; pass vocab_size, which leaves out larger ids, or the bytes of each id to "
                "Vocabulary.from_bytes"
            )
