from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.network.closures cimport Closures
from equivalence.network.deterministic cimport Deterministic
from equivalence.network.transitions cimport Transitions

cdef struct Called:
    int rule, back, next


cdef class Subsets:
    cdef Closures closures
    cdef Deterministic automata
    cdef Py_ssize_t max_states
    cdef Account account
    cdef Py_ssize_t n_rules
    cdef Interned sets
    cdef Py_ssize_t members_seen
    cdef Transitions ways
    cdef Called[::1] called
    cdef Py_ssize_t n_called
    cdef Py_ssize_t[::1] call_head

    cdef int prepare(self, Py_ssize_t max_states) except -1 nogil
    cdef void add_edge_of(self, Py_ssize_t k) noexcept nogil
    cdef int add_member(self, Py_ssize_t element) except -1 nogil
    cdef int collect(self, Py_ssize_t subset) except -1 nogil
    cdef void forget(self) noexcept nogil
    cdef Py_ssize_t number(self, Py_ssize_t mark) except -1 nogil
    cdef Py_ssize_t following(self) except -1 nogil
    cdef int add_edges(self, Py_ssize_t subset) except -1 nogil
    cdef bint add_only_edge(self, Py_ssize_t subset) except -1 nogil
    cdef int add_calls(self) except -1 nogil
    cdef int add_rule(self, Py_ssize_t rule) except -1 nogil
    cdef Py_ssize_t add_rules(self, const Py_ssize_t[::1] order) except -1 nogil
