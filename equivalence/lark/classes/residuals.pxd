from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.trie.nodes cimport Node


cdef class Residuals:
    cdef const int[:, ::1] step, emitted
    cdef const int[::1] sequence
    cdef const Py_ssize_t[::1] sequence_start
    cdef const int[::1] family
    cdef const Node[::1] nodes
    cdef const unsigned char[::1] first_byte
    cdef Py_ssize_t[::1] top
    cdef readonly Interned paths, rests, pairs
    cdef Py_ssize_t[::1] starts
    cdef int[::1] found
    cdef readonly Py_ssize_t[::1] kind
    cdef Interned parts
    cdef Py_ssize_t n_kinds
    cdef Py_ssize_t[::1] state, path
    cdef int[::1] child, end
    cdef Account account

    cdef int part_by_first_byte(self) except -1
    cdef int read_block(self, Py_ssize_t block, Py_ssize_t state, Py_ssize_t root) except -1 nogil
    cdef Py_ssize_t follow(self, Py_ssize_t byte, Py_ssize_t depth) except -2 nogil
    cdef Py_ssize_t rest_of(self, Py_ssize_t depth) except -1 nogil
    cdef inline Py_ssize_t pair_of(self, Py_ssize_t emitted, Py_ssize_t rest, Py_ssize_t group) except -1 nogil
