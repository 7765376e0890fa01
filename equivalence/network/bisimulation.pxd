from equivalence.arrays.account cimport Account
from equivalence.arrays.refinement cimport Partition
from equivalence.network.graph cimport Graph


cdef class GraphPartition(Partition):
    cdef Graph graph
    cdef Account account
