"""The file format of artefacts: a header and compressed arrays, under one digest.

What: `pack` makes bytes of a header and named arrays of integers; `unpack` gives them back after every byte
was checked against the digest, and every array against its own description.
When: by `hybrid.files.files` only, which knows what the arrays mean and checks their values.
Limits: a digest finds damage, not malice: whoever writes a file can write a fitting digest too. A forged file
meets the checks of `hybrid.files.checks`. Nothing is unpickled.

The layout: 12 bytes of magic, 4 bytes with the version (little endian), 32 bytes BLAKE2b of all that follows,
8 bytes with the length of the header (little endian), the header (JSON), the members. A member is the zlib
stream of an array in C order, little endian; the header lists its type, shape and length under "members", in
the order of the file. Equal contents give equal bytes.

`equivalence.store` has another layout, with arrays as they lie in memory, and says why. As it writes them,
files of compiled grammars would be 3 to 6 times as large (a schema 15 KB in place of 5, C-like 311 in place
of 54), and a folder of them would hold as many fewer.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import ArtifactError

VERSION = 4
"""Of the layout and of what the members mean: a change of the numbering of suffixes, symbols or classes
needs another one too."""

MAGIC = b"equimask-cg\n"
DIGEST_BYTES = 32
BODY = len(MAGIC) + 4 + DIGEST_BYTES
"""Where the part that the digest covers begins."""

TYPES = ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8")
"""Types of members, the narrowest that fits is taken."""

LEVEL = 4
"""Of the compression: 6 took 7.6 ms for a schema and gave files smaller by 7 %, this 2.6 (llama3); 9 took 290
ms for the classes of C++ where 6 took 17."""

AGAIN = "compile the grammar again and save it"
"""The way out of a file that cannot be used."""

Arrays = dict[str, NDArray[Any]]


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a file with a header (of JSON's types) and arrays of integers."""
    members, streams = {}, []
    for name, array in arrays.items():
        narrow = _narrow(array)
        stream = zlib.compress(narrow.tobytes(), LEVEL)
        members[name] = [narrow.dtype.str, list(narrow.shape), len(stream)]
        streams.append(stream)
    text = json.dumps({**header, "members": members}).encode()
    body = b"".join([len(text).to_bytes(8, "little"), text, *streams])
    digest = hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
    return MAGIC + VERSION.to_bytes(4, "little") + digest + body


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    least, most = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for name in TYPES:
        limits = np.iinfo(name)
        if limits.min <= least and most <= limits.max:
            return np.ascontiguousarray(array, name)
    raise AssertionError("int64 holds everything that tables hold")


def unpack_header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header of a file, and where its members begin.

    Raises:
        ArtifactError: no such file, another version, or a byte that is not as it was written.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise ArtifactError(
            "this is not a compiled grammar: it does not start like one; allowed is a file that "
            "CompiledGrammar.save wrote"
        )
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "little")
    if len(data) < BODY + 8:
        raise ArtifactError(f"the compiled grammar is cut off after {len(data)} bytes; {AGAIN}")
    if version != VERSION:
        raise ArtifactError(
            f"the compiled grammar has version {version} of the format, allowed is {VERSION}; {AGAIN} with "
            "this version of equimask"
        )
    with memoryview(data) as view:
        digest = hashlib.blake2b(view[BODY:], digest_size=DIGEST_BYTES).digest()
    if data[BODY - DIGEST_BYTES : BODY] != digest:
        raise ArtifactError(
            f"the compiled grammar is damaged or cut off ({len(data)} bytes): its digest does not fit its "
            f"contents; copy it again, or {AGAIN}"
        )
    # damage is out of the question from here on, but not what another program may have made
    begin = BODY + 8 + int.from_bytes(data[BODY : BODY + 8], "little")
    try:
        header = json.loads(data[BODY + 8 : begin])
    except (ValueError, RecursionError) as error:
        raise malformed(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict) or not isinstance(header.get("members"), dict):
        raise malformed("its header does not list members")
    return header, begin


def unpack(data: bytes, most: int, texts: Collection[str] = ()) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file, each array writable and in memory of its own.

    Args:
        data: the file.
        most: bytes that all arrays may take together, in int64, which is what most of them become.
        texts: names of arrays that stay as they are.

    Raises:
        ArtifactError: as `unpack_header`, or members that are not as the header says, or too large.
    """
    header, begin = unpack_header(data)
    arrays: Arrays = {}
    left = most
    for name, description in header["members"].items():
        dtype, shape, length = _described(name, description)
        size = math.prod(shape) * dtype.itemsize
        left -= size if name in texts else 8 * math.prod(shape)
        if left < 0:
            raise ArtifactError(
                f"the compiled grammar's tables need more than {most} bytes; allow more by Budget.table_bytes"
            )
        inflated = _inflated(data[begin : begin + length], size, name)
        try:
            arrays[name] = np.frombuffer(inflated, dtype).reshape(shape)
        except (ValueError, OverflowError) as error:  # a length of nothing at all that numpy cannot count
            raise malformed(f"member {name!r} has the shape {shape}") from error
        begin += length
    if begin != len(data):
        raise malformed(f"it has {len(data)} bytes, but its header describes {begin}")
    return header, arrays


def _described(name: str, description: Any) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    if not isinstance(description, list) or len(description) != 3:
        raise malformed(f"member {name!r} is not described by type, shape and length")
    dtype, shape, length = description
    sizes: list[Any] = [*shape, length] if isinstance(shape, list) else [None]
    if (
        dtype not in TYPES
        or len(sizes) not in (2, 3)
        or not all(is_integer(size) and size >= 0 for size in sizes)
    ):
        raise malformed(f"member {name!r} has type {dtype!r}, shape {shape!r}, length {length!r}")
    return np.dtype(dtype), tuple(shape), length


def _inflated(stream: bytes, size: int, name: str) -> bytearray:
    """Exactly `size` bytes out of a zlib stream: one that would give more is not followed further."""
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(stream, size + 1)
    except zlib.error as error:
        raise malformed(f"member {name!r} cannot be decompressed ({error})") from error
    if len(found) != size or inflating.unconsumed_tail or inflating.unused_data:
        raise malformed(f"member {name!r} has {len(found)} bytes or more, described are {size}")
    return bytearray(found)


def is_integer(value: Any) -> bool:
    """Whether a value of JSON is an integer and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def malformed(problem: str) -> ArtifactError:
    """The error for what no version of `pack` writes."""
    return ArtifactError(f"the compiled grammar is malformed: {problem}; {AGAIN}")
