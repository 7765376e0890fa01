cimport cython

from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


@cython.no_gc
cdef class BaseStore:
    cdef readonly Account account
    cdef readonly object fixed
    cdef readonly Interned masks
    cdef const unsigned char[::1] data
    cdef const Py_ssize_t[::1] offsets

    cdef Py_ssize_t count(self) noexcept nogil
    cdef Py_ssize_t read_text(self, Py_ssize_t configuration, const unsigned char *text, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t known_mask(self, Py_ssize_t configuration) noexcept
    cdef Py_ssize_t mask_of(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t checked(self, Py_ssize_t configuration) except -1
    cdef const unsigned char *token_bytes(self) noexcept
    cpdef Py_ssize_t advance(self, Py_ssize_t configuration, Py_ssize_t token) except -1
    cpdef Py_ssize_t advance_text(self, Py_ssize_t configuration, bytes text) except -1
    cpdef Py_ssize_t class_mask(self, Py_ssize_t configuration) except -1
    cdef Py_ssize_t step_over(self, Py_ssize_t configuration, const unsigned char *text, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t new_mask(self, Py_ssize_t configuration) except -1 nogil
