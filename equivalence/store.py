"""Named arrays in one file: written whole, checked before use, mapped into memory read-only.

What: `read_arrays` and `write_arrays` keep what is slow to compute and equal every time; `stored` reads a
file where it can be used and builds and writes it anew where it cannot.
When: for what depends on a vocabulary alone, such as its trie, and for kept walks; see docs/caches.md.
Limits: a digest finds damage, not malice: whoever may write to the folder could write a file with a
fitting digest, so the folder has to be as trustworthy as the code. Nothing is unpickled.

The layout: 16 bytes of magic, 32 bytes BLAKE2b of everything after them, 8 bytes with the length of the
header (little endian), the header (JSON: version, kind, key, and each member's offset and length), the
members. A member is a stream in numpy's own format ``.npy``, padded so that its data begins at a multiple of
64 bytes. A file is never changed after it got its name, so a mapping of it stays as it was checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import mmap
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1
"""Of the layout above; a file of another version is not read."""

MAGIC = b"equimask arrays\n"
DIGEST_BYTES = 32
ALIGNMENT = 64
BODY = len(MAGIC) + DIGEST_BYTES
"""Where the part that the digest covers begins."""

logger = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]


class Unusable(Exception):
    """A stored file that must not be used; the message says why. It never leaves this package."""


def stored(
    path: str | os.PathLike[str],
    build: Callable[[], Arrays],
    *,
    kind: str,
    key: str,
) -> Arrays:
    """The arrays of a file, or those of `build`, which are then written to the file.

    A missing folder is made. A file that cannot be written costs a warning and nothing else.

    Args:
        path: the file.
        build: computes the arrays.
        kind: what the arrays are, with the version of their meaning.
        key: what they were computed from.
    """
    target, refused = Path(path), []
    try:
        return read_arrays(target, kind=kind, key=key)
    except FileNotFoundError:
        pass
    except Unusable as error:
        logger.warning("%s is not used and is built anew: %s", target.name, error)
    except OSError as error:
        refused.append(f"it cannot be read ({error})")
    arrays = build()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(target, arrays, kind=kind, key=key)
    except OSError as error:
        refused.append(f"it cannot be written ({error}), and is built again next time")
    if refused:
        logger.warning("%s: %s", target.name, "; ".join(refused))
    return arrays


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], *, kind: str, key: str
) -> bytes:
    """Write arrays to a file, which appears whole or not at all, whoever else writes it.

    Returns:
        The digest of the contents, as `digest_of` reads it.

    Raises:
        OSError: the file cannot be written.
        ValueError: an array of Python objects.
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
    # numpy pads the head of each member to 64 bytes, so members that begin on 64 bytes have data that does
    text += b" " * (-(BODY + 8 + len(text)) % ALIGNMENT)
    body = b"".join([len(text).to_bytes(8, "little"), text, *members])
    digest = hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
    write_whole(path, MAGIC + digest, body)
    return digest


def digest_of(path: str | os.PathLike[str]) -> bytes | None:
    """The digest that a file claims for its contents, unchecked; None if it is no file of arrays.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    with open(path, "rb") as stream:
        head = stream.read(BODY)
    return head[len(MAGIC) :] if head.startswith(MAGIC) and len(head) == BODY else None


def write_whole(path: str | os.PathLike[str], *parts: bytes) -> None:
    """Write a file under another name in its folder and rename it, so that it appears whole or not at all.

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


def read_arrays(path: str | os.PathLike[str], *, kind: str, key: str) -> Arrays:
    """The arrays of a file, read-only and mapped into memory, after every byte of it was checked.

    Raises:
        Unusable: another format, version, kind or key, or a byte that is not as it was written.
        OSError: there is no such file, or it cannot be read.
    """
    with open(path, "rb") as stream:
        if os.fstat(stream.fileno()).st_size < BODY + 8:
            raise Unusable("the file is cut off")
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if mapped[: len(MAGIC)] != MAGIC:
        raise Unusable("it is no file of arrays")
    with memoryview(mapped) as view:
        digest = hashlib.blake2b(view[BODY:], digest_size=DIGEST_BYTES).digest()
    if mapped[len(MAGIC) : BODY] != digest:
        raise Unusable("its digest does not fit its contents")
    # from here on the contents are what `write_arrays` of some version wrote
    first = BODY + 8
    first += int.from_bytes(mapped[BODY:first], "little")
    header = json.loads(mapped[BODY + 8 : first])
    for name, wanted in (("version", VERSION), ("kind", kind), ("key", key)):
        if header.get(name) != wanted:
            raise Unusable(f"its {name} is {header.get(name)!r}, wanted is {wanted!r}")
    return {name: _member(mapped, first + begin) for name, (begin, _) in header["members"].items()}


def _member(mapped: mmap.mmap, begin: int) -> NDArray[Any]:
    """The array of one ``.npy`` stream, as a view of the mapping."""
    mapped.seek(begin)
    npy: Any = np.lib.format
    version = npy.read_magic(mapped)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(mapped)
    count = int(np.prod(shape, dtype=np.int64))
    array = np.frombuffer(mapped, dtype, count, mapped.tell()) if count else np.empty(0, dtype)
    array = array.reshape(shape, order="F" if fortran else "C")
    array.flags.writeable = False
    return array
