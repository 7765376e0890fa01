from equivalence.arrays.account cimport Account
from equivalence.network.component_classes cimport ComponentClasses
from equivalence.network.graph cimport Graph


cdef class ComponentMerging:
    cdef Graph graph
    cdef ComponentClasses classes
    cdef Account account
    cdef Py_ssize_t[::1] path
    cdef Py_ssize_t depth
    cdef Py_ssize_t[::1] cursor, order
    cdef Py_ssize_t n_visited
    cdef Py_ssize_t[::1] earliest
    cdef Py_ssize_t n_members

    cdef void visit(self, Py_ssize_t s) noexcept nogil
    cdef Py_ssize_t next_unvisited(self, Py_ssize_t s) noexcept nogil
    cdef int take_component(self, Py_ssize_t s) except -1 nogil
    cdef int merge(self, Py_ssize_t root) except -1 nogil
    cdef int prepare(self) except -1 nogil
