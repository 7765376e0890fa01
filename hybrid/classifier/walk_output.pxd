cimport cython

from equivalence.parser.space cimport Space
from equivalence.trie.nodes cimport Node
from hybrid.classifier.summaries cimport Summaries


@cython.no_gc
cdef class WalkOutput:
    cdef readonly Space space
    cdef readonly Summaries summaries
    cdef const Node[::1] trie
    cdef Py_ssize_t[::1] nodes, ranges
    cdef Py_ssize_t n_ranges
    cdef const unsigned char[:, ::1] follow_sets
    cdef Py_ssize_t own, follow_0, follow_1
    cdef bint follow_others

    cdef int allow(self, Py_ssize_t first, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t empty_mask(self) except -1 nogil
    cdef Py_ssize_t mask_of_ranges(self) except -1 nogil
    cdef int set_follow(self, Py_ssize_t own) except -1 nogil
    cdef bint may_follow(self, Py_ssize_t i) noexcept nogil
    cdef bint may_be_next(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t note_node(self, Py_ssize_t node, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t sorted_nodes(self, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t keep_followed(self, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t keep_unread(self, Py_ssize_t n, Py_ssize_t mask) noexcept nogil
    cdef bint is_read(self, Py_ssize_t i, Py_ssize_t mask_at) noexcept nogil
    cdef Py_ssize_t pending_set(self, Py_ssize_t n) except -1 nogil
