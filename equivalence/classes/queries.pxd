from equivalence.arrays.account cimport Account


cdef class Queries:
    cdef Py_ssize_t[:, ::1] rows
    cdef Py_ssize_t[::1] table
    cdef Py_ssize_t count
    cdef Account account

    cdef Py_ssize_t slot(self, Py_ssize_t outcome, Py_ssize_t below) noexcept nogil
    cdef Py_ssize_t find(self, Py_ssize_t outcome, Py_ssize_t below) noexcept nogil
    cdef int add(self, Py_ssize_t outcome, Py_ssize_t below) except -1 nogil
    cdef int grow(self) except -1
    cdef int rehash(self) except -1
