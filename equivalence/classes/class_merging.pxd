from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class ClassMerging:
    cdef const int[::1] range_sets
    cdef const Py_ssize_t[:, ::1] set_words, events, users
    cdef const unsigned char[::1] first_byte
    cdef const Py_ssize_t[::1] block_starts, user_starts, colors, context_starts, context_below
    cdef Interned queries, tuples, lists
    cdef Account account
    cdef Py_ssize_t[::1] group_starts, value
    cdef int[::1] places, block_of_event

    cdef Py_ssize_t feature(self, Py_ssize_t context, Py_ssize_t outcome) except -1 nogil
    cdef void evaluate(self, Py_ssize_t group, Py_ssize_t first_block, Py_ssize_t n_blocks) noexcept nogil
    cdef Py_ssize_t number(self, Py_ssize_t group) except -2 nogil
