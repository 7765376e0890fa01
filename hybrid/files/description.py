"""Describe the content of a compiled grammar's file, without a vocabulary.

What: `describe` reads the header and counts the members.
When: by ``python -m hybrid inspect``.
Limits: only the digest is checked, because no kernel uses these numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import ArtifactError
from hybrid.files import class_runs, lark_files
from hybrid.files.checks import TEXTS
from hybrid.files.container import BODY, malformed, unpack, unpack_header
from hybrid.files.schema_text import schema_of
from hybrid.xgrammar.relaxed import SchemaText

PARTS = {
    "classes": class_runs.MEMBERS,
    "network": (
        "final", "edge_lengths", "edges", "call_lengths", "calls", "counted", "rank", "behind",
    ),
    "pending sets": ("pending_lengths", "pending_suffixes", "pending_classes"),
    "summaries": ("first", "rows", "units"),
    "masks": ("masks",),
    "grammar": ("grammar", "schema"),
}  # fmt: skip
"""All members, by the part of the grammar that they describe."""


MOST_BYTES = 1 << 30
"""Bound of the bytes of all members together."""


class Description(NamedTuple):
    """A compiled grammar in numbers.

    Attributes:
        header: the header of the file.
        counts: the numbers of classes, states and so on, by name.
        mask_classes: number of classes in each distinct mask that was built ahead of time; empty for Lark
            grammars.
        parts: for each part, its bytes in memory (as int64, the type that kernels read, or int32 for Lark
            grammars; texts as text) and in the file.
        file_bytes: bytes of the file.
        schema: the JSON schema from which the grammar was made; None if it was made from something else.
    """

    header: dict[str, Any]
    counts: dict[str, int]
    mask_classes: NDArray[np.int64]
    parts: dict[str, tuple[int, int]]
    file_bytes: int
    schema: SchemaText | None = None


def describe(data: bytes) -> Description:
    """Return the header and the counts of a file.

    Raises:
        ArtifactError: as `container.unpack`.
    """
    try:
        return _describe(data)
    except ArtifactError:
        raise
    except (ValueError, LookupError) as error:  # `from_bytes` would refuse these with a specific message
        raise malformed(f"its members do not fit together ({error})") from error


def _describe(data: bytes) -> Description:
    _, begin = unpack_header(data)
    header, arrays = unpack(data, MOST_BYTES, TEXTS)
    members = header.pop("members")
    is_lark = header.get("notation") == "lark"
    all_parts, width = (lark_files.PARTS, 4) if is_lark else (PARTS, 8)
    missing = {name for names in all_parts.values() for name in names} - set(arrays)
    if missing:
        raise malformed(f"members {', '.join(sorted(missing))} are missing")
    parts = {
        part: (
            sum(arrays[name].size * (1 if name in TEXTS else width) for name in names),
            sum(members[name][2] for name in names),
        )
        for part, names in all_parts.items()
    }
    parts["header"] = (0, begin - BODY)
    if is_lark:
        return Description(header, lark_files.counts_of(arrays), np.empty(0, np.int64), parts, len(data))
    rows = {name: len(array) for name, array in arrays.items()}
    counts = {
        "classes": rows["representatives"],
        "states": rows["final"],
        "counters": rows["counted"],
        "pending sets": rows["pending_lengths"],
        "summaries": arrays["rows"].shape[-1],
        "counter frames": rows["units"],
        "masks": rows["masks"],
    }
    bits = np.unpackbits(arrays["masks"].astype("<u4").view(np.uint8), axis=None)
    mask_classes = bits.reshape(rows["masks"], -1).sum(axis=1, dtype=np.int64)
    return Description(header, counts, mask_classes, parts, len(data), schema_of(header, arrays))
