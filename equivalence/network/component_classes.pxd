from equivalence.arrays.interning cimport Interned
from equivalence.network.graph cimport Graph
from equivalence.network.signatures cimport Signatures


cdef class ComponentClasses:
    cdef Graph graph, part, quotient
    cdef Signatures blocks, of_quotient
    cdef Py_ssize_t[::1] members
    cdef readonly Py_ssize_t n_classes
    cdef Py_ssize_t[::1] class_of_key
    cdef Interned signatures
    cdef Py_ssize_t[::1] class_of_signature, wanted

    cdef bint loops(self, Py_ssize_t s) noexcept nogil
    cdef void name_all(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t name) noexcept nogil
    cdef int name_component(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int name_alike(self, Py_ssize_t begin, Py_ssize_t end, bint loops) except -1 nogil
    cdef int name_cycle(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int write_signature(self, Py_ssize_t i) except -1 nogil
    cdef int is_known(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int add_classes(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int add_key(self, Py_ssize_t s, Py_ssize_t own) except -1 nogil
    cdef int prepare(self) except -1 nogil
