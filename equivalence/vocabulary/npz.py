"""Reads named arrays of an ``.npz`` file that need not be trusted.

What: `read_npz` returns arrays of plain numbers from such an archive; the size of each is bounded.
When: for vocabularies (`Vocabulary.load`), whose files may come from other people.
Limits: only what numpy's `savez` and `savez_compressed` write. Other compression methods, encrypted members,
and archives with comments or with many members are refused. Nothing is unpickled.

Claims about sizes are checked first: the number of members and the size of their directory before it is read,
the size of a member before it is decompressed, and the size of its array before it is made. If a claim is
false, reading stops. Never more bytes are decompressed than allowed.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Mapping

import numpy as np

from equivalence.store import Arrays, Unusable, array_of_npy, read_whole

MOST_MEMBERS = 64
MEMBER_BYTES = 1024
"""Most bytes of the directory for each member; names are short."""

END = struct.Struct("<4s4H2LH")
"""The end of an archive: signature, disks, members (twice), size and place of the directory, comment."""

SIGNATURE = b"PK\x05\x06"
LARGE_SIGNATURE = b"PK\x06\x07"
"""The signature before the end of an archive that has more than 4 GiB, or claims to."""

HEAD_BYTES = 1 << 10
"""Most bytes of the description of an array, besides its numbers."""


def read_npz(path: str | os.PathLike[str], most: Mapping[str, int]) -> Arrays:
    """Read the named arrays of an archive; other members are ignored.

    Args:
        path: the file.
        most: for each array, its name and the most bytes that it may have.

    Raises:
        Unusable: the archive is damaged, forged or larger than allowed, or an array is missing; the message
            says which.
        OSError: there is no such file, it cannot be read, or it is larger than all arrays together may be.
    """
    bound = sum(most.values()) + MOST_MEMBERS * (MEMBER_BYTES + HEAD_BYTES)
    data = read_whole(path, bound)
    _check_end(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: array_of_npy(_member(archive, name, size)) for name, size in most.items()}
    except Unusable:
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
    if info.file_size > most + HEAD_BYTES:
        raise Unusable(f"{name} has {info.file_size} bytes, but the limit is {most}")
    with archive.open(info) as stream:
        # `read` decompresses no more than this; at the end of the member, it compares the checksum
        text = stream.read(info.file_size + 1)
    if len(text) != info.file_size:
        raise Unusable(f"{name} has {len(text)} bytes, but its archive says {info.file_size}")
    return np.frombuffer(text, np.uint8)
