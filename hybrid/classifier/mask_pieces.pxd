cimport cython

from equivalence.arrays.interning cimport Interned
from hybrid.classifier.vocabulary_walker cimport VocabularyWalker
from hybrid.values.gather cimport Gather


@cython.no_gc
cdef class PieceGather(Gather):
    cdef Interned pieces
    cdef VocabularyWalker walker
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens_of_groups
    cdef Py_ssize_t[::1] row_of_piece
    cdef list large

    cdef int grow(self) except -1
    cdef void add_ranges(self, const Py_ssize_t[::1] ranges, unsigned int[::1] out) noexcept nogil
    cdef Py_ssize_t look_at(self, Py_ssize_t piece) except -1 nogil
    cdef Py_ssize_t row(self, Py_ssize_t piece) except -1
