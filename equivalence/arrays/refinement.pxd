from equivalence.arrays.interning cimport Interned


cdef class Partition:
    cdef Py_ssize_t n, n_reached
    cdef Py_ssize_t[::1] starts, low, high, target, before, before_starts, color, order, counts, more
    cdef Interned keys

    cdef int index_sources(self) except -1
    cdef Py_ssize_t refine(self, Py_ssize_t n_colors, check) except -1 nogil
    cdef Py_ssize_t group(self, Py_ssize_t state) except -1 nogil
