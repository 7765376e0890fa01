cdef class Account:
    cdef Py_ssize_t[::1] cell
    cdef readonly Py_ssize_t taken
    cdef readonly Py_ssize_t most
    cdef object stop
    cdef object excess

    cdef int look(self) except -1 nogil
    cpdef int claim(self, Py_ssize_t wanted, Py_ssize_t replaced=*) except -1
