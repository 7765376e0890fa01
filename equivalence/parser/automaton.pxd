cdef struct Edge:
    Py_ssize_t first
    Py_ssize_t last
    Py_ssize_t target


cdef struct Call:
    Py_ssize_t callee
    Py_ssize_t back


cdef struct Counted:
    Py_ssize_t start
    Py_ssize_t least
    Py_ssize_t relative
    Py_ssize_t most


cdef struct Limit:
    Py_ssize_t frame
    Py_ssize_t first
    Py_ssize_t end
    Py_ssize_t accepts
    Py_ssize_t room
    Py_ssize_t automaton


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
