cimport cython

from equivalence.parser.space cimport Space
from hybrid.classifier.summaries cimport Summaries


cdef struct Node:
    int byte_class, depth, skip, group


cdef struct Suffix:
    int parent, byte_class


@cython.no_gc
cdef class Summariser:
    cdef readonly Space space
    cdef readonly Summaries summaries
    cdef const Node[::1] nodes
    cdef const Suffix[::1] suffixes
    cdef const int[::1] whole
    cdef const unsigned char[:, ::1] follow_sets
    cdef Py_ssize_t n_groups, n_states, longest
    cdef Py_ssize_t[::1] configurations, valid, popped, pairs

    cdef int read_top(self, Py_ssize_t state) except -1 nogil
    cdef Py_ssize_t symbol_of(self, Py_ssize_t state, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t summary(self, Py_ssize_t pending, Py_ssize_t symbol) except -1 nogil
    cdef int read_below(self, Py_ssize_t pair) except -1 nogil
    cdef Py_ssize_t unit_at(self, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t own_of(self, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t begin_on(self, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t empty_mask(self) except -1 nogil
    cdef Py_ssize_t note_pending(self, Py_ssize_t n, Py_ssize_t group, Py_ssize_t pops) except -1 nogil
    cdef int grow_pairs(self, Py_ssize_t wanted) except -1
    cdef Py_ssize_t distinct_pairs(self, Py_ssize_t n, Py_ssize_t mask_at) noexcept nogil
    cdef Py_ssize_t pending_set(self, Py_ssize_t n) except -1 nogil
    cdef void sort_pairs(self, Py_ssize_t n) noexcept nogil


cdef Py_ssize_t equivalent_count(Py_ssize_t count, Py_ssize_t least, Py_ssize_t most, Py_ssize_t reach) noexcept nogil
