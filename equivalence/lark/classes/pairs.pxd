from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.lark.classes.residuals cimport Residuals


cdef class Pairs:
    cdef Residuals rests
    cdef const int[::1] family_sequence
    cdef const Py_ssize_t[::1] family_start
    cdef Interned known
    cdef Py_ssize_t[::1] path_length, pair_start, text_start
    cdef int[::1] terminals
    cdef Account account

    cdef inline Py_ssize_t pair_of(self, Py_ssize_t emitted, Py_ssize_t rest, Py_ssize_t group) except -1 nogil
    cdef int measure_paths(self) except -1
    cdef inline Py_ssize_t path_of(self, Py_ssize_t pair) noexcept nogil
    cdef inline Py_ssize_t family_of(self, Py_ssize_t pair) noexcept nogil
    cdef inline Py_ssize_t length_of(self, Py_ssize_t sequence) noexcept nogil
    cdef inline void write(self, Py_ssize_t pair, Py_ssize_t tail, Py_ssize_t place) noexcept nogil
