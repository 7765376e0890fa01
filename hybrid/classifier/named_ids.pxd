from hybrid.classifier.rows cimport Rows
from hybrid.classifier.store cimport Store


cdef class NamedIds:
    cdef readonly object texts
    cdef readonly dict named
    cdef readonly dict group_of
    cdef readonly dict members
    cdef readonly bint reads_others
    cdef readonly dict escaped
    cdef readonly bint begin_alike
    cdef list rests
    cdef dict symbol_of
    cdef dict rows
    cdef readonly Py_ssize_t nbytes

    cdef Py_ssize_t group_of_id(self, Py_ssize_t token) except -2
    cdef Py_ssize_t step_of(self, Store store, Py_ssize_t config, Py_ssize_t token) except -2
    cdef object read_at(self, Store store, Py_ssize_t config)
    cdef int put_row(self, dict numbers, Store store, Rows rows, Py_ssize_t config, Py_ssize_t mask) except -1
    cdef object row_of(self, tuple read)
