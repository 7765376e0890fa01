cdef struct Node:
    Py_ssize_t sequence, parent, token, configuration, source


cdef struct Tables:
    Py_ssize_t first_row, first_node, steps, last_slot, masks, n_masks, stops, n_stops, configuration, n_bits


cdef struct Row:
    Py_ssize_t source, address, node


cdef class Lookup:
    cdef readonly list followers
    cdef list held
    cdef readonly Py_ssize_t n_left
    cdef Py_ssize_t n_nodes, n_rows
    cdef Node[::1] nodes
    cdef Tables[::1] tables
    cdef Row[::1] rows

    cdef Py_ssize_t follow(self, object follower) except -1
    cdef Py_ssize_t add(self, Py_ssize_t sequence, Py_ssize_t parent, Py_ssize_t token) noexcept
    cdef void add_row(self, Py_ssize_t node, Py_ssize_t address) noexcept
    cdef bint is_left(self, Py_ssize_t node) noexcept nogil
    cdef void look_and_copy(self, bint copies, Py_ssize_t full, Py_ssize_t refused, Py_ssize_t n_bytes) noexcept nogil
    cdef void look_up(self) noexcept nogil
    cdef Py_ssize_t step_from_parent(self, Py_ssize_t node) noexcept nogil
    cdef void plan_copies(self, Py_ssize_t full, Py_ssize_t refused) noexcept nogil
    cdef void copy(self, Py_ssize_t n_bytes) noexcept nogil
    cdef int look_up_unknown(self, bint copies, Py_ssize_t full, Py_ssize_t refused, Py_ssize_t n_bytes) except -1
    cdef bint find_once(self) except -1
