from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Merging:
    cdef Account account
    cdef const unsigned char[::1] first_byte
    cdef const Py_ssize_t[::1] round_of
    cdef const int[::1] range_sets
    cdef const Py_ssize_t[:, ::1] words, block_starts, user_starts, users
    cdef const Py_ssize_t[::1] owners, event_starts
    cdef const Py_ssize_t[:, ::1] events
    cdef const int[::1] places
    cdef Interned by_block, full
    cdef Py_ssize_t[::1] number_of_list, value

    cdef Py_ssize_t number(self, Py_ssize_t place) except -1 nogil
    cdef Py_ssize_t list_by_block(self, Py_ssize_t place) except -1 nogil
    cdef Py_ssize_t list_in_full(self, Py_ssize_t place) except -1 nogil
    cdef Py_ssize_t renamed(self, Py_ssize_t outcome) except -1 nogil
    cdef Py_ssize_t feature(self, Py_ssize_t context, Py_ssize_t outcome) except -1 nogil
