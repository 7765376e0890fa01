from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.network.below_sets cimport BelowSets, MergedStates
from equivalence.network.sorted_set cimport SortedSet


cdef class Contexts:
    cdef object flat
    cdef MergedStates states
    cdef BelowSets below
    cdef Interned sets
    cdef Py_ssize_t n_rules, n_classes, n_symbols
    cdef Py_ssize_t[::1] top_starts  # by symbol; counted classes are numbered from n_classes on
    cdef Py_ssize_t[::1] top_rules
    cdef Py_ssize_t[::1] frames  # by set: its number of counter frames, which come first in it
    cdef Py_ssize_t[::1] rest  # by set: the set without its frames, -2 if empty, -1 if not known
    cdef Py_ssize_t[::1] seen  # by rule: the symbol for which it was last visited
    cdef SortedSet codes
    cdef Py_ssize_t base
    cdef Py_ssize_t[:, ::1] rows
    cdef Py_ssize_t[::1] row_starts, row_sets
    cdef Py_ssize_t n_rows, n_row_sets
    cdef Account account

    cdef int find_tops(self, MergedStates states, BelowSets below) except -1 nogil
    cdef inline int is_own_top(self, Py_ssize_t s) except -1 nogil
    cdef int note_tops(self, MergedStates states, BelowSets below) except -1 nogil
    cdef int count_frames(self) except -1 nogil
    cdef Py_ssize_t most_rows(self) except -1 nogil
    cdef int collect(self, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t without_frames(self, Py_ssize_t own) except -1 nogil
    cdef int write(self, Py_ssize_t symbol) except -1 nogil
