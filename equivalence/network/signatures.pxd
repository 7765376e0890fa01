from equivalence.arrays.account cimport Account
from equivalence.network.bisimulation cimport GraphPartition
from equivalence.network.graph cimport Graph


cdef struct SignatureGroup:
    Py_ssize_t first, count, number


cdef class Signatures:
    cdef Graph graph
    cdef Account account
    cdef GraphPartition partition
    cdef readonly Py_ssize_t n_blocks
    cdef unsigned long long[::1] signatures, following
    cdef Py_ssize_t[::1] left
    cdef Py_ssize_t n_left
    cdef Py_ssize_t[::1] group
    cdef SignatureGroup[::1] groups
    cdef Py_ssize_t n_groups

    cdef int prepare(self) except -1 nogil
    cdef int divide(self) except -1 nogil
    cdef int refine(self) except -1 nogil
    cdef int group_left(self) except -1 nogil
    cdef Py_ssize_t name_singletons(self, Py_ssize_t n_rounds) noexcept nogil
    cdef unsigned long long signature(self, Py_ssize_t s) noexcept nogil
    cdef unsigned long long signature_of(self, Py_ssize_t target) noexcept nogil
    cdef void seal(self) noexcept nogil
    cdef Py_ssize_t as_integer(self, Py_ssize_t s) noexcept nogil
