from equivalence.arrays.interning cimport Interned
from equivalence.walks.merging cimport Merging


cdef class ClassMerging(Merging):
    cdef const Py_ssize_t[::1] colors, context_starts, context_below
    cdef Interned queries, tuples
