from hybrid.representatives.gather cimport Gather


cdef class Rows:
    cdef Gather gather
    cdef const Py_ssize_t[::1] stops
    cdef int[::1] of_configuration
    cdef int[::1] of_mask
    cdef Py_ssize_t[::1] addresses
    cdef unsigned char[::1] needed
    cdef list rows
    cdef Py_ssize_t n_configurations
    cdef readonly Py_ssize_t nbytes

    cdef Py_ssize_t number(self, Py_ssize_t configuration) noexcept nogil
    cdef bint finish(self, unsigned int[::1] out, bint whole) noexcept nogil
    cdef object note(self, Py_ssize_t configuration, Py_ssize_t row)
