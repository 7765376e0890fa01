from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Coloring:
    cdef const Py_ssize_t[:, ::1] rows
    cdef const Py_ssize_t[::1] starts  # where the rows of each item begin
    cdef const Py_ssize_t[::1] below  # the below set of each item
    cdef const unsigned char[::1] bottom
    cdef Py_ssize_t[::1] color, renewed
    cdef Interned keys  # lists that describe items; colors are their numbers
    cdef Py_ssize_t n_items
    cdef Account account

    cdef int make_keys(self, Py_ssize_t n_lists, Py_ssize_t n_rows) except -1
    cdef int color_items(self, bint displacement) except -1
    cdef int find_passable(self) except -1 nogil
    cdef int find_sure(self) except -1 nogil
    cdef bint is_sure(self, Py_ssize_t item) noexcept nogil
    cdef Py_ssize_t refine(self) except -1 nogil
    cdef Py_ssize_t write_key(self, Py_ssize_t first, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef int color_queries(self, const Py_ssize_t[:, ::1] queries, const Py_ssize_t[::1] starts, bint displacement, Py_ssize_t[::1] colors) except -1
