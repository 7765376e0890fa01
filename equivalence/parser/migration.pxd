from equivalence.parser.space cimport Space


cdef int needed_tails(Space space, Space other, Py_ssize_t begin, Py_ssize_t end, int[::1] found) except -1 nogil
cdef Py_ssize_t migrate_tail(Space space, Space other, Py_ssize_t tail, int[::1] found) except -1 nogil
