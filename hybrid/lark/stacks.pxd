from equivalence.arrays.pairs cimport Pairs


cdef class Stacks:
    cdef readonly Pairs nodes
    cdef const int[:, ::1] action
    cdef const int[:, ::1] goto
    cdef const int[::1] rule_length
    cdef const int[::1] rule_origin

    cpdef Py_ssize_t shifted(self, Py_ssize_t node, Py_ssize_t terminal) except -1 nogil
