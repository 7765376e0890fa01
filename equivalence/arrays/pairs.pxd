from equivalence.arrays.account cimport Account


cdef struct Pair:
    int first
    int second
    int result
    int rest


cdef class Pairs:
    cdef Account account
    cdef Pair[::1] rows
    cdef int[::1] table
    cdef readonly Py_ssize_t count

    cdef Py_ssize_t number(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil
    cdef Py_ssize_t add(self, Py_ssize_t first, Py_ssize_t second, Py_ssize_t slot) except -1 nogil
    cdef Py_ssize_t slot(self, Py_ssize_t first, Py_ssize_t second) noexcept nogil
    cdef int grow(self) except -1
    cdef Pairs copied(self, Account account)
