from equivalence.arrays.account cimport Account


cdef class Spread:
    cdef const Py_ssize_t[::1] set_starts, set_below, symbol
    cdef Py_ssize_t[::1] begins
    cdef unsigned char[::1] returning
    cdef const unsigned char[:, ::1] first
    cdef unsigned char[:, ::1] below, occurrences
    cdef Py_ssize_t n_sets
    cdef Account account

    cdef int find_begins(self, const Py_ssize_t[::1] symbols, const unsigned char[::1] final, const Py_ssize_t[:, ::1] counted) except -1
    cdef int begin(self) except -1
    cdef int add_below_returning(self) except -1
    cdef int after_symbols(self, unsigned char[:, ::1] returns) except -1
    cdef int below_contexts(self, const Py_ssize_t[::1] context_starts, const Py_ssize_t[::1] context_below, unsigned char[:, ::1] contexts) except -1
