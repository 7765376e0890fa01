from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Features:
    cdef Interned queries
    cdef const Py_ssize_t[::1] colors, context_starts, context_below
    cdef Interned tuples  # the colors of contexts with several below sets

    cdef Py_ssize_t feature(self, Py_ssize_t context, Py_ssize_t outcome) except -1 nogil


cdef class Blocks:
    cdef const int[::1] classes, range_sets
    cdef const Py_ssize_t[:, ::1] set_words
    cdef const unsigned char[::1] first_byte
    cdef const Py_ssize_t[::1] block_starts
    cdef const Py_ssize_t[:, ::1] events
    cdef Py_ssize_t[::1] example  # the first group of each class; -1: none
    cdef Py_ssize_t[::1] group_starts  # where the events of each group begin
    cdef int[::1] places  # the rows of events, by group
    cdef int[::1] block_of_event
    cdef Py_ssize_t[::1] value  # what each block of the current byte does with the current class

    cdef int choose(self, Py_ssize_t n_classes) except -1
    cdef void evaluate(self, Py_ssize_t number) noexcept nogil


cdef class ClassMerging:
    cdef Blocks blocks
    cdef Features features
    cdef const Py_ssize_t[::1] user_starts
    cdef const Py_ssize_t[:, ::1] users
    cdef Interned lists
    cdef Account account

    cdef Py_ssize_t spell(self, Py_ssize_t number) except -1 nogil
    cdef int merge(self, int[::1] merged) except -1 nogil
