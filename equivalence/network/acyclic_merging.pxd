from equivalence.arrays.account cimport Account
from equivalence.network.graph cimport Graph


cdef class AcyclicMerging:
    cdef Graph graph
    cdef Account account
    cdef readonly Py_ssize_t n_classes
    cdef readonly Py_ssize_t n_cyclic
    cdef unsigned char[::1] ends
    cdef Py_ssize_t[::1] class_of_key
    cdef Py_ssize_t[::1] path
    cdef Py_ssize_t depth
    cdef Py_ssize_t[::1] cursor

    cdef void visit(self, Py_ssize_t s) noexcept nogil
    cdef Py_ssize_t next_unvisited(self, Py_ssize_t s) noexcept nogil
    cdef int loops(self, Py_ssize_t s) noexcept nogil
    cdef void number_again(self) noexcept nogil
    cdef bint successors_end(self, Py_ssize_t s) noexcept nogil
    cdef int settle(self, Py_ssize_t s) except -1 nogil
    cdef int merge(self, Py_ssize_t root) except -1 nogil
    cdef int prepare(self) except -1 nogil
