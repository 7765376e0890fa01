"""The file format of artefacts: a header and compressed arrays, under one digest.

What: `pack` makes bytes from a header and named arrays of integers. `unpack` returns them, after it has
checked every byte against the digest and every array against its description.
When: only by `hybrid.files.files`, which knows what the arrays mean and checks their values.
Limits: a digest detects damage, not malice: whoever writes a file can also write the right digest. For forged
files there are the checks of `hybrid.files.checks`. Nothing is unpickled.

The layout: 12 bytes of magic, 4 bytes with the version (little endian), 32 bytes with the BLAKE2b digest of
everything that follows, 8 bytes with the length of the header (little endian), the header (JSON), the
members. A member is the zlib stream of an array in C order, little endian. The header lists its type, shape
and length under "members", in the order of the file. Equal contents give equal bytes.

The archives of `equivalence.array_files` have only a checksum for each array, and some hundred bytes around
it: a small schema would take twice as much.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import ArtifactError

VERSION = 7
"""The version of the layout and of the meaning of the members. A change of the numbering of nodes, symbols or
classes needs a new version, too."""

MAGIC = b"equimask-cg\n"
DIGEST_BYTES = 32
BODY = len(MAGIC) + 4 + DIGEST_BYTES
"""Where the data that the digest covers begins."""

TYPES = ("|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8")
"""The types of members. `pack` uses the narrowest type that fits."""

LEVEL = 4
"""Level of compression. It takes 2.6 ms for a schema; level 6 took 7.6 ms, for files that are 7 % smaller
(llama3). Level 9 took 290 ms for the classes of C++, level 6 took 17."""

AGAIN = "compile the grammar again and save it"
"""The advice in errors about files that cannot be used."""

Arrays = dict[str, NDArray[Any]]


def pack(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], most: int | None = None,
    texts: Collection[str] = (),
) -> bytes:  # fmt: skip
    """Make the bytes of a file with a header (of JSON's types) and arrays of integers.

    Args:
        header: the header.
        arrays: the arrays, by name.
        most: the limit with which the file must be readable; None if any size is allowed.
        texts: as in `unpack`; these have a byte for each number.

    Raises:
        ArtifactError: `unpack` would refuse the file with this limit.
    """
    if most is not None:
        _check_total(((name, array.dtype, array.shape) for name, array in arrays.items()), most, texts)
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
    """Return the header of a file, and where its members begin.

    Raises:
        ArtifactError: the data is not an artefact, has another version, or is damaged.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise ArtifactError(
            "this is not a compiled grammar, because it does not begin like one; pass a file that "
            "CompiledGrammar.save wrote"
        )
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "little")
    if len(data) < BODY + 8:
        raise ArtifactError(f"the compiled grammar is cut off after {len(data)} bytes; {AGAIN}")
    if version != VERSION:
        raise ArtifactError(
            f"the compiled grammar must have version {VERSION} of the format, but has {version}; "
            f"{AGAIN} with this version of equimask"
        )
    with memoryview(data) as view:
        digest = hashlib.blake2b(view[BODY:], digest_size=DIGEST_BYTES).digest()
    if data[BODY - DIGEST_BYTES : BODY] != digest:
        raise ArtifactError(
            f"the compiled grammar is damaged or cut off ({len(data)} bytes): its checksum is wrong; "
            f"copy it again, or {AGAIN}"
        )
    # the data is not damaged, but another program may have made it
    begin = BODY + 8 + int.from_bytes(data[BODY : BODY + 8], "little")
    try:
        header = json.loads(data[BODY + 8 : begin])
    except (ValueError, RecursionError) as error:
        raise malformed(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict) or not isinstance(header.get("members"), dict):
        raise malformed("its header does not list members")
    return header, begin


def unpack(data: bytes, most: int, texts: Collection[str] = ()) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file. Each array is writable and has its own memory.

    Args:
        data: the file.
        most: bytes that all arrays may take together as int64, the type of most of them in use.
        texts: names of the arrays that are used as they are.

    Raises:
        ArtifactError: as `unpack_header`; or a member differs from its description, or they are too large.
    """
    header, begin = unpack_header(data)
    described = {name: _described(name, member) for name, member in header["members"].items()}
    _check_total(((name, dtype, shape) for name, (dtype, shape, _) in described.items()), most, texts)
    arrays: Arrays = {}
    for name, (dtype, shape, length) in described.items():
        size = math.prod(shape) * dtype.itemsize
        inflated = _inflated(data[begin : begin + length], size, name)
        try:
            arrays[name] = np.frombuffer(inflated, dtype).reshape(shape)
        except (ValueError, OverflowError) as error:  # an empty array too long for numpy
            raise malformed(f"member {name!r} has the shape {shape}") from error
        begin += length
    if begin != len(data):
        raise malformed(f"it has {len(data)} bytes, but its header describes {begin}")
    return header, arrays


def _check_total(
    members: Iterable[tuple[str, np.dtype[Any], tuple[int, ...]]], most: int, texts: Collection[str]
) -> None:
    """Check how many bytes the arrays of a file take together; see `unpack`."""
    total = sum(math.prod(shape) * (dtype.itemsize if name in texts else 8) for name, dtype, shape in members)
    if total > most:
        raise ArtifactError(
            f"the compiled grammar's tables need more than {most} bytes; raise Budget.table_bytes"
        )


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
    """Return exactly `size` bytes of a zlib stream. A stream that contains more is not read to its end."""
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(stream, size + 1)
    except zlib.error as error:
        raise malformed(f"member {name!r} cannot be decompressed ({error})") from error
    if len(found) != size or inflating.unconsumed_tail or inflating.unused_data:
        raise malformed(f"member {name!r} must have {size} bytes, but has {len(found)} or more")
    return bytearray(found)


def is_integer(value: Any) -> bool:
    """Whether a JSON value is an integer and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def malformed(problem: str) -> ArtifactError:
    """Return the error for data that no version of `pack` writes."""
    return ArtifactError(f"the compiled grammar is malformed: {problem}; {AGAIN}")
