cdef enum:
    ENDS_AT = 8  # `ENDS` and `BELOW_OTHERS` of the module
    OTHERS_AT = 9


# A row of `by_level`, as walks read it.
cdef struct Node:
    int child, group, group_end, bits, below_0, below_1, below_2, below_3


cdef class DepthFirst:
    cdef const unsigned char[::1] data
    cdef const Py_ssize_t[::1] offsets
    cdef Py_ssize_t n_strings, n_nodes, longest
    cdef Py_ssize_t[::1] shared
    cdef unsigned char[::1] byte
    cdef int[::1] depth, skip, group, parent
    cdef Py_ssize_t[:, ::1] below
    cdef unsigned char[::1] valid

    cdef void compare_neighbours(self) noexcept nogil
    cdef void place_nodes(self, Py_ssize_t[::1] path) noexcept nogil
    cdef void look_below(self) noexcept nogil
