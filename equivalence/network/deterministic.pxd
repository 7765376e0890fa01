cdef struct Span:
    int first, last, target

cdef struct Call:
    int rule, back


cdef class Deterministic:
    cdef Py_ssize_t[::1] rule_first, rule_last, rule_first_room, rule_last_room
    cdef unsigned char[::1] copied, copied_room, final
    cdef Py_ssize_t[::1] edge_starts
    cdef Span[::1] edges
    cdef Py_ssize_t n_edges
    cdef Py_ssize_t[::1] call_starts
    cdef Call[::1] calls
    cdef Py_ssize_t n_calls

    cdef int add_state(self, Py_ssize_t state, bint is_final) except -1 nogil
    cdef int add_edge(self, Py_ssize_t source, Py_ssize_t first, Py_ssize_t last, Py_ssize_t target) except -1 nogil
    cdef int add_call(self, Py_ssize_t rule, Py_ssize_t back) except -1 nogil
    cdef void end_state(self, Py_ssize_t state) noexcept nogil
    cdef void end_rule(self, Py_ssize_t rule, Py_ssize_t end) noexcept nogil
    cdef bint is_small(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
    cdef int grow_states(self) except -1
    cdef int grow_edges(self) except -1
    cdef int grow_calls(self) except -1
    cdef int prepare(self, Py_ssize_t n_rules, Py_ssize_t n_callees, Py_ssize_t room) except -1 nogil
