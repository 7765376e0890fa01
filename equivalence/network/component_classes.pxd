from equivalence.arrays.interning cimport Interned
from equivalence.network.graph cimport Graph
from equivalence.network.signatures cimport Signatures


cdef class ComponentClasses:
    cdef Graph graph, part, quotient
    cdef Signatures blocks, of_quotient
    cdef Py_ssize_t[::1] members
    cdef readonly Py_ssize_t n_classes
    cdef readonly bint is_certain
    cdef Py_ssize_t[::1] class_of_key
    cdef Interned signatures
    cdef Py_ssize_t[::1] class_of_signature, own_signature, wanted, first_class, n_classes_of, example, tried
    cdef Py_ssize_t n_tries, work

    cdef bint loops(self, Py_ssize_t s) noexcept nogil
    cdef void name_all(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t name) noexcept nogil
    cdef int name_component(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int name_alike(self, Py_ssize_t begin, Py_ssize_t end, bint loops) except -1 nogil
    cdef Py_ssize_t class_of_successor(self, Py_ssize_t begin, Py_ssize_t end) except -2 nogil
    cdef int is_like(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t c, Py_ssize_t byte) except -1 nogil
    cdef bint may_be_equivalent(self, Py_ssize_t s, Py_ssize_t t, Py_ssize_t c, Py_ssize_t byte) noexcept nogil
    cdef int name_cycle(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int add_key(self, Py_ssize_t s, Py_ssize_t own) except -1 nogil
    cdef int is_known(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int is_within(self, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int is_within_that_of(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t s, Py_ssize_t c, Py_ssize_t byte) except -1 nogil
    cdef int make_union(self, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t first, Py_ssize_t n_others) except -1 nogil
    cdef void add_component(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef int add_classes(self, Py_ssize_t begin, Py_ssize_t end, bint is_signed) except -1 nogil
    cdef int merge_all(self) except -1 nogil
    cdef int prepare(self) except -1 nogil
