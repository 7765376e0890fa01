cdef enum:
    ENDS_AT = 8  # `ENDS` and `BELOW_OTHERS` of the module
    OTHERS_AT = 9


# A row of `by_level`, as walks read it.
cdef struct Node:
    int child
    int group
    int group_end
    int bits
    int below_0
    int below_1
    int below_2
    int below_3


cdef class DepthFirst:
    cdef const unsigned char[::1] data
    cdef const Py_ssize_t[::1] offsets
    cdef Py_ssize_t n_strings
    cdef Py_ssize_t n_nodes
    cdef Py_ssize_t longest
    cdef Py_ssize_t[::1] shared
    cdef unsigned char[::1] byte
    cdef int[::1] depth
    cdef int[::1] skip
    cdef int[::1] group
    cdef int[::1] parent
    cdef Py_ssize_t[:, ::1] below
    cdef unsigned char[::1] valid

    cdef void compare_neighbours(self) noexcept nogil
    cdef void place_nodes(self, Py_ssize_t[::1] path) noexcept nogil
    cdef void look_below(self) noexcept nogil
