cimport cython

from equivalence.arrays.interning cimport Interned
from hybrid.classifier.walker cimport Walker
from hybrid.values.gather cimport Gather, mark_tokens


@cython.no_gc
cdef class PieceGather(Gather):
    cdef Interned pieces
    cdef Walker walker
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens_of_groups
    cdef Py_ssize_t[::1] row_of_piece

    cdef int add(self, Py_ssize_t piece, unsigned int[::1] out) except -1 nogil
    cdef int grow(self) except -1
    cdef void add_ranges(self, const Py_ssize_t[::1] ranges, unsigned int[::1] out) noexcept nogil
    cdef Py_ssize_t look_at(self, Py_ssize_t piece) except -1 nogil
    cdef Py_ssize_t row(self, Py_ssize_t piece) except -1


# Four words are read before any is written, so that the compiler can combine them.
cdef inline void unite_row(Py_ssize_t address, unsigned int[::1] out) noexcept nogil:
    cdef const unsigned int* row = <const unsigned int*>address
    cdef Py_ssize_t w = 0, n = out.shape[0]
    cdef unsigned int first, second, third, fourth
    while w + 4 <= n:
        first = out[w] | row[w]
        second = out[w + 1] | row[w + 1]
        third = out[w + 2] | row[w + 2]
        fourth = out[w + 3] | row[w + 3]
        out[w] = first
        out[w + 1] = second
        out[w + 2] = third
        out[w + 3] = fourth
        w += 4
    while w < n:
        out[w] |= row[w]
        w += 1
