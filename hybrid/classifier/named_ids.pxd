from hybrid.classifier.rows cimport Rows
from hybrid.classifier.store cimport Store


cdef class NamedIds:
    cdef readonly object texts
    cdef readonly dict named
    cdef dict group_of, members
    cdef bint reads_others, begin_alike
    cdef readonly dict escaped
    cdef list rests
    cdef dict symbol_of, rows
    cdef readonly Py_ssize_t nbytes

    cpdef Py_ssize_t group(self, Py_ssize_t token) except -2
    cpdef Py_ssize_t step(self, Store store, Py_ssize_t configuration, Py_ssize_t token) except -2
    cdef object read_at(self, Store store, Py_ssize_t configuration)
    cpdef int note_mask(self, dict numbers, Store store, Rows rows, Py_ssize_t configuration, Py_ssize_t mask) except -1
    cdef object row_of(self, tuple read)
