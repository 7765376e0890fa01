"""Named arrays in one file: written completely or not at all, checked before use, read-only.

What: `write_arrays` writes an ``.npz`` archive, and `read_arrays` reads one, which need not be trusted.
`read_whole` reads any file up to a size, and `write_whole` writes one.
When: for vocabularies and counts of drafts.
Limits: only what numpy's `savez` and `savez_compressed` write. Other compression methods, encrypted members,
and archives with comments or with many members are refused. Nothing is unpickled. A checksum finds damage,
but not malice: arrays are plain numbers, and the caller must check them.

Claims about sizes are checked first: the number of members and the size of their directory before it is read,
the size of a member before it is decompressed, and the size of its array before it is made. If a claim is
false, reading stops. Never more bytes are decompressed than allowed. A file is copied into memory, not
mapped: a process that has mapped a file ends when somebody shortens the file.

Compiled grammars have another format, `hybrid.files.container`, with one digest of everything and less
around each array.
"""

from __future__ import annotations

import errno
import io
import math
import os
import re
import secrets
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_MEMBERS = 64
MEMBER_BYTES = 1024
"""Most bytes of the directory for each member; names are short."""

END = struct.Struct("<4s4H2LH")
"""The end of an archive: signature, disks, members (twice), size and place of the directory, comment."""

SIGNATURE = b"PK\x05\x06"
LARGE_SIGNATURE = b"PK\x06\x07"
"""The signature before the end of an archive that has more than 4 GiB, or claims to."""

NPY_MAGIC = b"\x93NUMPY\x01\x00"
NPY_HEAD_BYTES = 1024
"""Most bytes of the description of an array; numpy's own have 128."""

NPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][iufb]\d)', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), ?\} *\n",
    re.DOTALL,
)
"""What numpy writes before the numbers of an array, of plain numbers. A run of digits can be read in only one
way: otherwise a forged head could take forever."""

PARTIAL_NAME_BYTES = 200
"""Most bytes of the part of a temporary file's name that it shares with its target."""

Arrays = dict[str, NDArray[Any]]


class Unusable(Exception):
    """A stored file must not be used; the message says why. This error never leaves the package."""


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], *, compressed: bool = False
) -> None:
    """Write arrays to a file. It appears completely or not at all, also if others write it at the same time.

    Raises:
        OSError: the file cannot be written.
    """
    stream = io.BytesIO()
    save: Callable[..., None] = np.savez_compressed if compressed else np.savez
    save(stream, **arrays)
    write_whole(path, stream.getvalue())


def write_whole(path: str | os.PathLike[str], *parts: bytes) -> None:
    """Write a file under another name in its folder, and rename it, so that it appears completely or not at
    all.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    target = os.fspath(path)
    folder, name = os.path.split(target)
    if len(os.fsencode(name)) > PARTIAL_NAME_BYTES:  # the other name would be too long for the file system
        name = name[: PARTIAL_NAME_BYTES // 4]
    partial = os.path.join(folder, f"{name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb") as stream_out:
            for part in parts:
                stream_out.write(part)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: there is no such file, it cannot be read, or it has more bytes than `most`.
    """

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
        return stream.read(found.st_size)


def read_arrays(path: str | os.PathLike[str], most: Mapping[str, int]) -> Arrays:
    """The named arrays of an archive, read-only; other members are ignored.

    Args:
        path: the file.
        most: for each array, its name and the most bytes that it may have.

    Raises:
        Unusable: the archive is damaged, forged or larger than allowed, or an array is missing; the message
            says which.
        OSError: there is no such file, it cannot be read, or it is larger than all arrays together may be.
    """
    bound = sum(most.values()) + MOST_MEMBERS * (MEMBER_BYTES + NPY_HEAD_BYTES)
    data = read_whole(path, bound)
    _check_end(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: array_of_npy(_member(archive, name, size)) for name, size in most.items()}
    except (Unusable, MemoryError):  # sizes are bounded: a lack of memory says nothing about the file
        raise
    except Exception as error:  # any error of Python's reader on a forged archive
        raise Unusable(f"{type(error).__name__}: {error}") from error


def _check_end(data: bytes) -> None:
    """Refuse an archive with a large directory: reading it would make an object for each member."""
    end = data[-END.size :]
    if len(end) < END.size or end[:4] != SIGNATURE:
        raise Unusable("it does not end as an archive does")
    _, _, _, _, members, size, _, comment = END.unpack(end)
    is_large = data[-END.size - 20 : -END.size - 16] == LARGE_SIGNATURE
    if comment or is_large or members > MOST_MEMBERS or size > MOST_MEMBERS * MEMBER_BYTES:
        raise Unusable(
            f"it must be an archive of at most {MOST_MEMBERS} members without a comment, but has "
            f"{members} members"
        )


def _member(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The bytes of one member."""
    found = [info for info in archive.infolist() if info.filename == f"{name}.npy"]
    if len(found) != 1:
        raise Unusable(f"it has {len(found)} arrays called {name}")
    (info,) = found
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise Unusable(f"{name} is encrypted, or not compressed the way numpy does it")
    if info.file_size > most + NPY_HEAD_BYTES:
        raise Unusable(f"{name} has {info.file_size} bytes, but the limit is {most}")
    with archive.open(info) as stream:
        # `read` decompresses no more than this; at the end of the member, it compares the checksum
        text = stream.read(info.file_size + 1)
    if len(text) != info.file_size:
        raise Unusable(f"{name} has {len(text)} bytes, but its archive says {info.file_size}")
    return np.frombuffer(text, np.uint8)


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
        if not array.flags.aligned:
            raise Unusable("the numbers of an array are misaligned")
        return array.reshape(shape, order="F" if found[2] == b"True" else "C")
    except (ValueError, TypeError, OverflowError) as error:
        raise Unusable(
            f"an array has another size than its header says, or an unknown type ({error})"
        ) from error
