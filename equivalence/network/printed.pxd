from equivalence.arrays.interning cimport Interned


cdef class Printed:
    cdef const unsigned char[::1] text
    cdef Py_ssize_t position
    cdef Interned names
    cdef Py_ssize_t[:, ::1] places
    cdef Py_ssize_t[::1] bodies
    cdef Py_ssize_t n_rules
    cdef Py_ssize_t[::1] data, starts, parts, chosen
    cdef Py_ssize_t n_data, n_starts, types
    cdef bint has_caret
    cdef Py_ssize_t[::1] escaped

    cdef int prepare(self, bytes text, bint has_caret) except -1
    cdef Py_ssize_t number_of(self, bytes name) except? -1
    cdef int find_rules(self) except -1 nogil
    cdef int read_bodies(self) except -1 nogil
    cdef Py_ssize_t choices(self) except -2 nogil
    cdef Py_ssize_t pattern(self) except -2 nogil
    cdef Py_ssize_t sequence(self) except -2 nogil
    cdef Py_ssize_t quoted(self) except -2 nogil
    cdef Py_ssize_t range(self) except -2 nogil
    cdef Py_ssize_t called(self) except -2 nogil
    cdef Py_ssize_t whole_of(self, Py_ssize_t kind, Py_ssize_t[::1] parts, Py_ssize_t n) except -2 nogil
    cdef Py_ssize_t ended(self, Py_ssize_t kind, Py_ssize_t length) except -2 nogil
    cdef inline int takes(self, Py_ssize_t wanted) except -1 nogil
    cdef int takes_all(self, const char* wanted) except -1 nogil
    cdef int skip_name(self) except -1 nogil
    cdef Py_ssize_t named(self, Py_ssize_t begin, bint is_new) except -2 nogil
    cdef Py_ssize_t integer(self) except -2 nogil
    cdef Py_ssize_t character(self, bint in_class) except -2 nogil
    cdef Py_ssize_t hexadecimal(self, Py_ssize_t digits) except -2 nogil
