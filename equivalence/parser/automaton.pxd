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

    cdef bint is_limited(self, Py_ssize_t unit) noexcept nogil


# The state with which a call begins.
cdef inline Py_ssize_t begin_of(Automaton automaton, Py_ssize_t call) noexcept nogil:
    cdef Py_ssize_t callee = automaton.calls[call].callee
    return callee if callee >= 0 else automaton.counted[-1 - callee].start


# Whether a state has edges or calls.
cdef inline bint has_moves(Automaton automaton, Py_ssize_t state) noexcept nogil:
    return (
        automaton.edge_starts[state] < automaton.edge_starts[state + 1]
        or automaton.call_starts[state] < automaton.call_starts[state + 1]
    )
