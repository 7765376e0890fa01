from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.arrays.pairs cimport Pairs
from equivalence.parser.space cimport Space


cdef class Symbols:
    cdef Space space
    cdef Account account
    cdef Interned outcomes, sets
    cdef Pairs memo
    cdef bint displacement
    cdef const unsigned char[:, ::1] return_first
    cdef const int[::1] suffix_parent
    cdef const unsigned char[::1] suffix_byte
    cdef Py_ssize_t[::1] symbol_start, pairs

    cdef int find_starts(self, const Py_ssize_t[::1] symbols) except -1
    cdef Py_ssize_t outcome_of(self, Py_ssize_t suffixes, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t read_symbol(self, Py_ssize_t suffixes, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t leave(self, Py_ssize_t configuration, Py_ssize_t suffix, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t add_pair(self, Py_ssize_t n, Py_ssize_t pair) except -1 nogil
    cdef Py_ssize_t own_bytes(self) except -1
    cdef Py_ssize_t nbytes(self) except -1
