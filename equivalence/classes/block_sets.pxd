from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Sweep:
    cdef const unsigned char[::1] first_byte  # the first byte of each group
    cdef const Py_ssize_t[::1] block_starts, range_starts
    cdef const Py_ssize_t[:, ::1] ranges
    cdef int[::1] ends  # where the toggles of each group end
    cdef int[::1] toggles  # blocks, counted from the first one of the group's byte
    cdef Py_ssize_t[::1] bounds  # groups that have toggles
    cdef Py_ssize_t n_bounds
    cdef int[::1] numbers  # the number of the set from each bound on
    cdef Py_ssize_t[::1] words
    cdef Py_ssize_t n_words
    cdef Interned sets
    cdef Account account

    cdef void sort_toggles(self) noexcept nogil
    cdef void list_bounds(self) noexcept nogil
    cdef int number_bounds(self) except -1 nogil
    cdef Py_ssize_t current_set(self, Py_ssize_t first_byte) except -1 nogil
    cdef int number_groups(self, int[::1] result) except -1
