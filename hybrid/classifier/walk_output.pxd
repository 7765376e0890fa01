cimport cython

from equivalence.arrays.interning cimport Interned
from equivalence.trie.nodes cimport Node as TrieNode
from hybrid.classifier.summariser cimport Summariser


@cython.no_gc
cdef class WalkOutput(Summariser):
    cdef const TrieNode[::1] trie
    cdef Py_ssize_t[::1] ranges
    cdef Py_ssize_t n_ranges
    cdef readonly Interned pieces
    cdef object fixed
    cdef bint filters, is_any
    cdef unsigned char[::1] followers
    cdef Py_ssize_t follow_0, follow_1
    cdef bint follow_others
    cdef readonly Py_ssize_t n_entered

    cdef int allow(self, Py_ssize_t first, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t mask_of_ranges(self) except -1 nogil
    cdef int set_follow(self, Py_ssize_t own) except -1 nogil
    cdef int load_follow_sets(self) except -1
    cdef void follow_all(self) noexcept nogil
    cdef bint may_follow(self, Py_ssize_t i) noexcept nogil
    cdef bint may_be_next(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t note_node(self, Py_ssize_t node, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t sorted_nodes(self, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t keep_followed(self, Py_ssize_t n) noexcept nogil
