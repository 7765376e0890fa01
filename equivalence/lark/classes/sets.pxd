from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Sets:
    cdef const unsigned char[:, ::1] tops
    cdef const int[:, ::1] alike
    cdef const Py_ssize_t[::1] cell_start
    cdef const Py_ssize_t[:, ::1] cells
    cdef Interned kind_sets
    cdef Account account

    cdef Py_ssize_t without_covered(self, Py_ssize_t begin, Py_ssize_t count, Py_ssize_t group) except -1 nogil
    cdef bint is_within(self, Py_ssize_t one, Py_ssize_t other, Py_ssize_t group) noexcept nogil
