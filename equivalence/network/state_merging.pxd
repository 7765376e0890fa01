from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.network.deterministic cimport Call, Deterministic, Span
from equivalence.network.graph cimport Graph
from equivalence.network.component_merging cimport ComponentMerging


cdef Py_ssize_t put(Py_ssize_t[::1] to, Py_ssize_t at, const Py_ssize_t[::1] numbers, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t put_edges(Py_ssize_t[::1] to, Py_ssize_t at, Deterministic automata) noexcept nogil
cdef Py_ssize_t put_calls(Py_ssize_t[::1] to, Py_ssize_t at, Deterministic automata) noexcept nogil


cdef class StateMerging:
    cdef Account account
    cdef Py_ssize_t root, n_rules, n_states, all_counted
    cdef const Py_ssize_t[::1] rule_first
    cdef const unsigned char[::1] final
    cdef const Py_ssize_t[::1] edge_starts
    cdef Span[::1] edges
    cdef const Py_ssize_t[::1] call_starts
    cdef Call[::1] calls
    cdef Py_ssize_t[::1] counted
    cdef const unsigned char[::1] nullable
    cdef Py_ssize_t[::1] representative_of, representative_room
    cdef Py_ssize_t[::1] first, first_room, bounds
    cdef Py_ssize_t n_bounds
    cdef Graph graph
    cdef ComponentMerging components
    cdef Deterministic automata
    cdef Interned pairs
    cdef Py_ssize_t[::1] class_of
    cdef Py_ssize_t n_classes
    cdef Py_ssize_t[::1] class_of_counted, class_of_counted_room
    cdef Py_ssize_t n_counted
    cdef unsigned char[::1] is_called

    cdef int prepare(self, Deterministic states, Py_ssize_t n_states, Py_ssize_t[::1] counted, const unsigned char[::1] nullable, Py_ssize_t root) except -1 nogil
    cdef bint is_end(self, Py_ssize_t s) noexcept nogil
    cdef Py_ssize_t tail_callee(self, Py_ssize_t s) noexcept nogil
    cdef int merge_tail_callers(self) except -1 nogil
    cdef Py_ssize_t called_rule(self, Py_ssize_t k) noexcept nogil
    cdef Py_ssize_t least(self, Py_ssize_t counted) noexcept nogil
    cdef int number_bounds(self) except -1 nogil
    cdef int make_graph(self, Graph graph) except -1 nogil
    cdef int minimise(self) except -1 nogil
    cdef int number_counted(self) except -1 nogil
    cdef int add_call(self, Deterministic automata, Py_ssize_t c, Py_ssize_t k) except -1 nogil
    cdef int quotient(self, Deterministic automata) except -1 nogil
    cdef int run(self) except -1 nogil
    cdef tuple automaton(self, Py_ssize_t longest)
    cdef void fill_counted(self, Py_ssize_t[::1] rows, Py_ssize_t longest) noexcept nogil
