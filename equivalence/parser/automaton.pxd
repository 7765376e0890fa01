cdef struct Edge:
    Py_ssize_t first, last, target


cdef struct Call:
    Py_ssize_t callee, back


cdef struct Counted:
    Py_ssize_t start, least, relative, most


cdef struct Limit:
    Py_ssize_t frame, first, end, accepts, room, automaton


cdef class Automaton:
    cdef const unsigned char[::1] final
    cdef const Py_ssize_t[::1] edge_starts
    cdef const Edge[::1] edges
    cdef const Py_ssize_t[::1] call_starts
    cdef const Call[::1] calls
    cdef const Counted[::1] counted
    cdef const Limit[::1] limits
    cdef const Py_ssize_t[::1] following
    cdef readonly Py_ssize_t n_states
    cdef readonly object arrays

    cdef bint is_same_rule(self, Py_ssize_t unit, Py_ssize_t other) noexcept nogil
    cdef bint is_limited(self, Py_ssize_t unit) noexcept nogil
