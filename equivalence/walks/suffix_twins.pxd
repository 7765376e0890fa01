from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Rewriting:
    cdef Interned outcomes
    cdef int[::1] twin
    cdef Interned fresh
    cdef Py_ssize_t[::1] numbers, pairs
    cdef Account account

    cdef Py_ssize_t number_of(self, Py_ssize_t outcome) except -1 nogil
    cdef Py_ssize_t rewritten(self, Py_ssize_t outcome) except -1 nogil
    cdef Py_ssize_t own_bytes(self) except? -1


cdef class Twins:
    cdef Account account
    cdef Rewriting rewriting
    cdef const int[::1] suffixes
    cdef const unsigned char[::1] first_byte
    cdef const Py_ssize_t[::1] round_of
    cdef const int[::1] range_sets
    cdef const Py_ssize_t[:, ::1] words, block_starts, user_starts, users
    cdef const Py_ssize_t[::1] owners, event_starts
    cdef const Py_ssize_t[:, ::1] events
    cdef const int[::1] places
    cdef Interned by_block
    cdef Py_ssize_t[::1] class_of
    cdef Interned full
    cdef int[::1] example
    cdef Py_ssize_t[::1] value

    cdef int find(self, const Py_ssize_t[::1] order) except -1
    cdef Py_ssize_t list_by_block(self, Py_ssize_t place) except -1 nogil
    cdef Py_ssize_t list_in_full(self, Py_ssize_t place) except -1 nogil
