from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.walks.merging cimport Merging


cdef class Rewriting:
    cdef Interned outcomes
    cdef int[::1] twin
    cdef Interned fresh
    cdef Py_ssize_t[::1] numbers, pairs
    cdef Account account

    cdef Py_ssize_t number_of(self, Py_ssize_t outcome) except -1 nogil
    cdef Py_ssize_t rewritten(self, Py_ssize_t outcome) except -1 nogil
    cdef Py_ssize_t own_bytes(self) except? -1


cdef class Twins(Merging):
    cdef Rewriting rewriting
    cdef const int[::1] suffixes
    cdef int[::1] example

    cdef int find(self, const Py_ssize_t[::1] order) except -1
