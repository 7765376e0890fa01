from equivalence.arrays.account cimport Account
from equivalence.arrays.refinement cimport Partition
from equivalence.network.graph cimport Graph
from equivalence.network.signatures cimport Signatures


cdef class GraphPartition(Partition):
    cdef Graph graph
    cdef Account account


cdef class Refinement:
    cdef Graph graph
    cdef Account account
    cdef Signatures signatures
    cdef GraphPartition partition
    cdef readonly Py_ssize_t n_blocks

    cdef int refine(self) except -1 nogil
