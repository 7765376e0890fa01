from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.arrays.pairs cimport Pairs


cdef struct First:
    int mask, pending


cdef class Summaries:
    cdef First[::1] first
    cdef Pairs pairs
    cdef readonly Py_ssize_t n_states, n_words
    cdef readonly bint complete
    cdef readonly Interned pendings, masks, units
    cdef Account account

    cdef int note(self, Py_ssize_t pair, Py_ssize_t mask, Py_ssize_t below) except -1 nogil
    cdef Py_ssize_t united(self, Py_ssize_t one, Py_ssize_t other) except -1 nogil
