from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.network.regions cimport Regions
from equivalence.network.sorted_set cimport SortedSet


cdef class BelowSets:
    cdef Regions regions
    cdef Py_ssize_t total, max_states
    cdef Account account
    cdef Interned pairs
    cdef Py_ssize_t[::1] link_starts, pair_of_link, set_starts, members
    cdef int[::1] links
    cdef Py_ssize_t n_members
    cdef unsigned char[::1] bottom
    cdef Py_ssize_t[::1] region_seen, pair_seen, queue
    cdef SortedSet codes
    cdef Py_ssize_t[::1] number, example
    cdef Interned sets
    cdef Py_ssize_t[::1] set_of_region

    cdef int gather(self, Py_ssize_t region) except -1 nogil
    cdef Py_ssize_t intern_set(self, Py_ssize_t region) except -1 nogil
    cdef int share_round(self) except -1 nogil
