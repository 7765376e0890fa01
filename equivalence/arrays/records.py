# cython: language_level=3
# mypy: ignore-errors
"""Tables of records for compiled classes, which read each row as a C struct.

What: a `Kind` names the fields. `empty`, `zeros` and `absent` allocate `Records` of a kind; `of_array` makes
them from the rows of an array without copying.
When: wherever a compiled class has a table of records: ``self.links: Link[::1] = zeros(LINK, 64)``.
Limits: one dimension; all fields are integers of 32 or 64 bits.

Making such a table and a view of it takes 0.35 us. With numpy it takes 1.6 us, because numpy writes out the
name of the type each time; the tables of a first mask have a dozen.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.buffer import (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcpy, memset

check_source(__name__)


@cython.final
@cython.cclass
class Kind:
    """The fields of a record.

    Args:
        fields: their names, separated by blanks.
        number: the type of each: np.int64 or np.int32.
        wide: more names, of fields with 64 bits.

    Attributes:
        fields: as given.
        width, size: bytes of a number of `fields`, and of a record.
    """

    def __init__(self, fields: str, number: Any = np.int64, wide: str = "") -> None:
        letter, width = {np.int64: ("q", 8), np.int32: ("i", 4)}[number]
        names = [f"{letter}:{name}:" for name in fields.split()]
        more = [f"q:{name}:" for name in wide.split()]
        self.fields = fields
        self.width = width
        self.size = width * len(names) + 8 * len(more)
        # the format that numpy would write; the names matter if somebody makes an array of the records
        self.format = "".join(["T{", *names, *more, "}"]).encode()


@cython.final
@cython.no_gc
@cython.cclass
class Records:
    """Rows of one kind, with Python's buffer interface. The functions below make them."""

    def __cinit__(self) -> None:
        self.start = cython.NULL

    def __dealloc__(self) -> None:
        if self.owner is None:
            free(self.start)

    def __len__(self) -> int:
        """Rows."""
        return self.count

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int) -> None:  # noqa: F821
        if self.is_readonly and flags & PyBUF_WRITABLE:
            raise BufferError("these records are of an array that is not to be written to")
        buffer.buf = self.start
        buffer.obj = self
        buffer.len = self.count * self.stride
        buffer.itemsize = self.stride
        buffer.readonly = self.is_readonly
        buffer.format = self.kind.format
        buffer.ndim = 1
        buffer.shape = cython.address(self.count)
        buffer.strides = cython.address(self.stride)
        buffer.suboffsets = cython.NULL
        buffer.internal = cython.NULL

    def longer(self, count: cython.Py_ssize_t, used: cython.Py_ssize_t) -> Records:
        """A copy with room for `count` rows, of which the first `used` are those of here."""
        if not 0 <= used <= min(count, self.count):
            raise ValueError(f"{used} of {self.count} records do not fit into {count}")
        made = empty(self.kind, count)
        memcpy(made.start, self.start, used * self.stride)
        return made


@cython.cfunc
def _records(kind: Kind, count: cython.Py_ssize_t, start: cython.p_char) -> Records:
    if start == cython.NULL:
        raise MemoryError
    made: Records = Records.__new__(Records)
    made.kind, made.start, made.count, made.stride = kind, start, count, kind.size
    return made


def empty(kind, count):
    """Records that are not initialised. Memory that is never written takes no page."""
    return _records(kind, count, cython.cast(cython.p_char, malloc(max(count, 1) * kind.size)))


def zeros(kind, count):
    """Records of zeros."""
    return _records(kind, count, cython.cast(cython.p_char, calloc(max(count, 1), kind.size)))


def absent(kind, count):
    """Records whose numbers are all -1."""
    made = empty(kind, count)
    memset(made.start, 0xFF, count * kind.size)
    return made


def of_array(array, kind):
    """The rows of an array as records, without copying.

    Args:
        array: [n, number of fields], contiguous, with the type of the kind's numbers; may be read-only.

    Raises:
        ValueError: its bytes are not records of this kind.
    """
    buffer = cython.declare(Py_buffer)  # noqa: F821
    PyObject_GetBuffer(array, cython.address(buffer), PyBUF_SIMPLE)
    start: cython.p_char = cython.cast(cython.p_char, buffer.buf)
    length: cython.Py_ssize_t = buffer.len
    is_readonly: cython.bint = buffer.readonly
    PyBuffer_Release(cython.address(buffer))  # an array's memory stays where it is
    if length % kind.size or (buffer.itemsize != kind.width and buffer.itemsize != kind.size):
        raise ValueError(f"{length} bytes, {buffer.itemsize} a number, are no records of {kind.fields!r}")
    made: Records = Records.__new__(Records)
    made.kind, made.owner, made.start, made.is_readonly = kind, array, start, is_readonly
    made.count, made.stride = length // kind.size, kind.size
    return made
