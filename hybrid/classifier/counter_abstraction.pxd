from equivalence.parser.character_loops cimport CharacterLoops


cdef struct Known:
    int replaced, reach, loops


cdef class Counters(CharacterLoops):
    cdef readonly bint any
    cdef Known[::1] known
    cdef Py_ssize_t room

    cdef Py_ssize_t with_smaller_count(self, Py_ssize_t configuration, Py_ssize_t height) except -1 nogil
    cdef int find_replacement(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t tail_with_smaller_count(self, Py_ssize_t tail) except -1 nogil
    cdef int grow(self) except -1
