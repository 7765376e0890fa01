from equivalence.arrays.interning cimport Interned
from hybrid.classifier.walking cimport Walker
from hybrid.representatives.gather cimport Gather


cdef class PieceGather(Gather):
    cdef Interned pieces
    cdef Walker walker
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens_of_groups
    cdef int[::1] row_of_piece
    cdef unsigned int[:, ::1] large_rows
    cdef Py_ssize_t n_large

    cdef void add(self, Py_ssize_t piece, unsigned int[::1] out) noexcept nogil
    cdef Py_ssize_t look_at(self, Py_ssize_t piece) noexcept nogil
    cdef Py_ssize_t new_row(self) noexcept
    cdef bint recall(self, Py_ssize_t piece, Py_ssize_t row) noexcept
    cdef void keep(self, Py_ssize_t piece, Py_ssize_t row) noexcept
