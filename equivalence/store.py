"""Named arrays in one file: written completely or not at all, checked before use, read-only.

What: `read_arrays` and `write_arrays` are for data that is slow to compute and always the same. `stored`
reads a file if it can be used; otherwise it computes the data and writes the file. `read_whole` reads any
file up to a size, and `array_of_npy` an array inside of it.
When: for data that depends only on a vocabulary, such as its trie; see docs/caches.md.
Limits: a digest finds damage, but not malice: who may write to the folder can write a file with a valid
digest. Such a file gives arrays of plain numbers that are as large as the file; the caller must check their
content. Nothing is unpickled.

Layout: 16 bytes of magic; 32 bytes BLAKE2b of everything after them; 8 bytes with the length of the header
(little endian); the header (JSON: version, kind, key, and the offset and length of each member); the members.
A member is a stream in numpy's format ``.npy``, padded so that its data begins at a multiple of 64 bytes. A
file is copied into memory, not mapped: a process that has mapped a file ends when somebody shortens the file.

Compiled grammars have another format, `hybrid.files.container`: compressed, with the narrowest types, and
errors for users. In that format, reading a trie would take 13 ms instead of 4. One format with a flag would
share a digest and a JSON header, and still need the code of both for everything else.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import logging
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

VERSION = 1
"""The version of the layout above. Files of other versions are not read."""

MAGIC = b"equimask arrays\n"
DIGEST_BYTES = 32
ALIGNMENT = 64
BODY = len(MAGIC) + DIGEST_BYTES
"""Where the part that the digest covers begins."""

MOST_BYTES = 2**30
"""The largest file that is read, if the caller has no other bound."""

NPY_MAGIC = b"\x93NUMPY\x01\x00"
NPY_HEAD_BYTES = 1024
"""Longest head of an array; numpy's own have 128 bytes."""

NPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][iufb]\d)', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), ?\} *\n",
    re.DOTALL,
)
"""What numpy writes before the numbers of an array, of plain numbers. A run of digits can be read in only one
way: otherwise a forged head could take forever."""

logger = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]
Made = TypeVar("Made")


class Unusable(Exception):
    """A stored file must not be used; the message says why. This error never leaves the package."""


def stored(
    path: str | os.PathLike[str],
    build: Callable[[], Made],
    *,
    kind: str,
    key: str,
    most: int,
    read: Callable[[Arrays], Made],
    write: Callable[[Made], Arrays],
) -> Made:
    """Read data from a file, or build it and write the file.

    A missing folder is made. If the file cannot be written, there is a warning, and nothing else happens.

    Args:
        path: the file.
        build: computes the data.
        kind: what the arrays are, with the version of their meaning.
        key: what the data was computed from.
        most: bound of the file's bytes.
        read: makes the data from arrays with any content; raises `Unusable` if they do not fit.
        write: the arrays of the data.
    """
    target, refused = Path(path), []
    try:
        return read(read_arrays(target, kind=kind, key=key, most=most))
    except FileNotFoundError:
        pass
    except Unusable as error:
        logger.warning("%s cannot be used and is rebuilt: %s", target.name, error)
    except OSError as error:
        refused.append(f"it cannot be read ({error})")
    made = build()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(target, write(made), kind=kind, key=key)
    except OSError as error:
        refused.append(f"it cannot be written ({error}), so it is rebuilt next time")
    if refused:
        logger.warning("%s: %s", target.name, "; ".join(refused))
    return made


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], *, kind: str, key: str
) -> None:
    """Write arrays to a file. It appears completely or not at all, also if others write it at the same time.

    Raises:
        OSError: the file cannot be written.
        ValueError: an array contains Python objects.
    """
    npy: Any = np.lib.format  # its functions have no types
    members, offsets, size = [], {}, 0
    for name, array in arrays.items():
        stream = io.BytesIO()
        npy.write_array(stream, np.asarray(array), allow_pickle=False)
        data = stream.getvalue()
        offsets[name] = [size, len(data)]
        padding = -len(data) % ALIGNMENT
        members.append(data + bytes(padding))
        size += len(data) + padding
    header = {"version": VERSION, "kind": kind, "key": key, "size": size, "members": offsets}
    text = json.dumps(header).encode()
    # numpy pads the head of each member to a multiple of 64 bytes, so the data is as aligned as the member
    text += b" " * (-(BODY + 8 + len(text)) % ALIGNMENT)
    body = b"".join([len(text).to_bytes(8, "little"), text, *members])
    digest = hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
    write_whole(path, MAGIC + digest, body)


def write_whole(path: str | os.PathLike[str], *parts: bytes) -> None:
    """Write a file under another name in its folder, and rename it, so that it appears completely or not at
    all.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    target = os.fspath(path)
    partial = f"{target}.{os.getpid()}.{secrets.token_hex(4)}.partial"
    try:
        with open(partial, "xb") as stream_out:
            for part in parts:
                stream_out.write(part)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], most: int) -> Iterator[tuple[BinaryIO, int]]:
    """A file up to a size, and its size."""

    def opener(name: str, flags: int) -> int:
        # opening what is not a file, such as a pipe to which nobody writes, must not wait
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    with open(os.fspath(path), "rb", opener=opener) as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "this is not a regular file", os.fspath(path))
        if found.st_size > most:
            raise OSError(
                errno.EFBIG, f"it has {found.st_size} bytes, but the limit is {most}", os.fspath(path)
            )
        yield stream, found.st_size


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: there is no such file, it cannot be read, or it has more bytes than `most`.
    """
    with _opened(path, most) as (stream, size):
        return stream.read(size)


def read_arrays(path: str | os.PathLike[str], *, kind: str, key: str, most: int = MOST_BYTES) -> Arrays:
    """The arrays of a file, read-only. All bytes are checked against the digest first.

    Raises:
        Unusable: it has another format, version, kind or key, or a byte was changed.
        OSError: there is no such file, it cannot be read, or it has more bytes than `most`.
    """
    with _opened(path, most) as (stream, size):
        room = np.empty(size + ALIGNMENT, np.uint8)
        begin = -room.ctypes.data % ALIGNMENT
        data = room[begin : begin + size]
        data = data[: stream.readinto(data.data)]  # type: ignore[attr-defined]
    data.flags.writeable = False
    view = data.data
    if len(view) < BODY + 8:
        raise Unusable("the file is cut off")
    if view[: len(MAGIC)] != MAGIC:
        raise Unusable("it is not a file of arrays")
    if view[len(MAGIC) : BODY] != hashlib.blake2b(view[BODY:], digest_size=DIGEST_BYTES).digest():
        raise Unusable("its checksum is wrong")
    # from here on the contents are what `write_arrays` of some version wrote, or what somebody forged
    first = BODY + 8 + int.from_bytes(view[BODY : BODY + 8], "little")
    try:
        header = json.loads(bytes(view[BODY + 8 : first]))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise Unusable("its header is not an object")
    for name, wanted in (("version", VERSION), ("kind", kind), ("key", key)):
        if header.get(name) != wanted:
            raise Unusable(f"its {name} must be {wanted!r}, but is {header.get(name)!r}")
    members = header.get("members")
    if not isinstance(members, dict):
        raise Unusable("its header does not list members")
    return {name: _member(data[first:], name, place) for name, place in members.items()}


def _member(data: NDArray[np.uint8], name: str, place: Any) -> NDArray[Any]:
    """The array at a place [begin, length] of the members."""
    if not isinstance(place, list) or [type(number) for number in place] != [int, int]:
        raise Unusable(f"the place of {name!r} is {place!r}")
    begin, length = place
    if not 0 <= begin <= begin + length <= len(data) or begin % ALIGNMENT:
        raise Unusable(f"{name!r} is outside the file, or misaligned")
    array = array_of_npy(data[begin : begin + length])
    if not array.flags.aligned:
        raise Unusable(f"the numbers of {name!r} are misaligned")
    return array


def array_of_npy(data: NDArray[np.uint8]) -> NDArray[Any]:
    """The array of plain numbers in a complete ``.npy`` stream, as a view of it.

    Raises:
        Unusable: it is no such stream.
    """
    begin = len(NPY_MAGIC) + 2
    begin += int.from_bytes(data[begin - 2 : begin].tobytes(), "little")
    # numpy would read the head with Python's parser, in which a forged head can raise any error
    found = NPY_HEAD.fullmatch(data[: min(begin, NPY_HEAD_BYTES)].tobytes())
    if not found:
        raise Unusable("an array does not begin with numpy's header")
    shape = [int(size) for size in found[3].split(b",") if size.strip()]
    try:
        dtype = np.dtype(found[1].decode())
        array = data[begin:].view(dtype)
        if array.size != math.prod(shape):
            raise Unusable(f"an array of shape {shape} has {array.size} numbers")
        return array.reshape(shape, order="F" if found[2] == b"True" else "C")
    except (ValueError, TypeError, OverflowError) as error:
        raise Unusable(
            f"an array has another size than its header says, or an unknown type ({error})"
        ) from error
