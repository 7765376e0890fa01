"""Named arrays of an ``.npz`` file that anybody may have made.

What: `read_npz` gives the arrays of such an archive, each of plain numbers and of a bounded size.
When: for vocabularies (`Vocabulary.load`), whose files travel.
Limits: what numpy's `savez` and `savez_compressed` write; other ways to compress, encrypted members, archives
with comments or of many members are refused. Nothing is unpickled.

What is said of sizes is looked at first: the number of members and the size of their directory before it is
read, the size that a member claims before it is decompressed, and what its array claims before there is one.
A claim that is not kept ends the reading, and no more is decompressed than is allowed.
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
"""Of the directory, for each member: names are short."""

END = struct.Struct("<4s4H2LH")
"""The end of an archive: signature, disks, members (twice), size and place of the directory, comment."""

SIGNATURE = b"PK\x05\x06"
LARGE_SIGNATURE = b"PK\x06\x07"
"""Of what stands before the end of an archive that has more than 4 GiB, or claims to."""

HEAD_BYTES = 1 << 10
"""What the description of an array may take besides its numbers."""


def read_npz(path: str | os.PathLike[str], most: Mapping[str, int]) -> Arrays:
    """The named arrays of an archive; others are not looked at.

    Args:
        path: the file.
        most: bytes that each array may have.

    Raises:
        Unusable: the message says why: it is damaged, forged, larger than allowed, or lacks an array.
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
    except Exception as error:  # whatever Python's reader stumbles over in a forged archive
        raise Unusable(f"{type(error).__name__}: {error}") from error


def _check_end(data: bytes) -> None:
    """Refuse an archive whose directory is large: reading it makes an object for each member."""
    end = data[-END.size :]
    if len(end) < END.size or end[:4] != SIGNATURE:
        raise Unusable("it does not end as an archive does")
    _, _, _, _, members, size, _, comment = END.unpack(end)
    is_large = data[-END.size - 20 : -END.size - 16] == LARGE_SIGNATURE
    if comment or is_large or members > MOST_MEMBERS or size > MOST_MEMBERS * MEMBER_BYTES:
        raise Unusable(f"it is an archive of {members} members, allowed are {MOST_MEMBERS} and no comment")


def _member(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The bytes of one member."""
    found = [info for info in archive.infolist() if info.filename == f"{name}.npy"]
    if len(found) != 1:
        raise Unusable(f"it has {len(found)} arrays called {name}")
    (info,) = found
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise Unusable(f"{name} is encrypted, or compressed in another way than numpy does")
    if info.file_size > most + HEAD_BYTES:
        raise Unusable(f"{name} has {info.file_size} bytes, allowed are {most}")
    with archive.open(info) as stream:
        # no more is decompressed than asked for; at the end the checksum is compared
        text = stream.read(info.file_size + 1)
    if len(text) != info.file_size:
        raise Unusable(f"{name} has {len(text)} bytes, its archive says {info.file_size}")
    return np.frombuffer(text, np.uint8)
