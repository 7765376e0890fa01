from equivalence.arrays.account cimport Account
from equivalence.network.below_sets cimport BelowSets, MergedStates
from equivalence.network.sorted_set cimport SortedSet


cdef class Contexts:
    cdef object flat
    cdef MergedStates states
    cdef BelowSets below
    cdef Py_ssize_t n_rules, n_classes, n_symbols
    cdef Py_ssize_t[::1] top_starts  # by symbol; counted classes are numbered from n_classes on
    cdef Py_ssize_t[::1] top_rules
    cdef SortedSet sets
    cdef Py_ssize_t[::1] symbols, set_starts, symbol_sets
    cdef Py_ssize_t n_found, n_sets
    cdef Account account

    cdef int find_tops(self, MergedStates states) except -1 nogil
    cdef inline int is_own_top(self, Py_ssize_t s) except -1 nogil
    cdef int note_tops(self, MergedStates states) except -1 nogil
    cdef int write(self, Py_ssize_t symbol) except -1 nogil
