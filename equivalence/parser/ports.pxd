cimport cython

from equivalence.arrays.account cimport Account


@cython.no_gc
cdef class Ports:
    cdef Account account
    cdef Py_ssize_t[::1] numbers
    cdef Py_ssize_t count

    cdef int insert(self, Py_ssize_t port) except -1 nogil
    cdef int grow(self) except -1
