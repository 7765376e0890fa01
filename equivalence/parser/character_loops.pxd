cimport cython

from equivalence.parser.space cimport Space

cdef enum:
    BYTE_LOOP = 2  # a loop of characters in which each byte is one


@cython.no_gc
cdef class CharacterLoops:
    cdef Space space

    cdef int find(self, Py_ssize_t configuration) except -1 nogil
    cdef bint loops_on_others(self, Py_ssize_t configuration) except -1 nogil
    cdef bint is_back(self, Py_ssize_t following, Py_ssize_t configuration) except -1 nogil
