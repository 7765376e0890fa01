from equivalence.arrays.interning cimport Interned
from equivalence.network.sorted_set cimport SortedSet
from equivalence.network.deterministic cimport Span

cdef enum:
    INSIDE = -3


cdef struct CallByState:
    int callee, bounds, back


cdef class Graph:
    cdef readonly Py_ssize_t size
    cdef const unsigned char[::1] final
    cdef unsigned char[::1] own_final
    cdef const Py_ssize_t[::1] edge_starts
    cdef Py_ssize_t[::1] own_edge_starts
    cdef Span[::1] edges, edges_room
    cdef const Py_ssize_t[::1] call_starts
    cdef Py_ssize_t[::1] own_call_starts
    cdef CallByState[::1] calls, calls_room
    cdef readonly Py_ssize_t n_bounds
    cdef Py_ssize_t shift
    cdef Py_ssize_t[::1] name, name_room, example
    cdef SortedSet codes
    cdef Interned keys

    cdef Py_ssize_t named(self, Py_ssize_t target, Py_ssize_t s, Py_ssize_t own) noexcept nogil
    cdef Py_ssize_t write_key(self, Py_ssize_t s, Py_ssize_t own) except -1 nogil
    cdef Py_ssize_t write_calls(self, Py_ssize_t s, Py_ssize_t own, Py_ssize_t at) except -1 nogil
    cdef int prepare(self, const unsigned char[::1] final, const Py_ssize_t[::1] edge_starts, Py_ssize_t n_edges, const Py_ssize_t[::1] call_starts, Py_ssize_t n_calls, Py_ssize_t n_bounds, Py_ssize_t n_named) except -1 nogil
    cdef int find_examples(self, Py_ssize_t n_names) except -1 nogil
    cdef int by_name(self, Graph graph, Py_ssize_t n_names) except -1 nogil
    cdef int take(self, Graph graph, const Py_ssize_t[::1] states, Py_ssize_t others, Py_ssize_t n_named) except -1 nogil
    cdef Py_ssize_t number_in(self, Py_ssize_t others, Py_ssize_t target) noexcept nogil
    cdef int name_others(self, Py_ssize_t n) except -1 nogil


# Number of a state's edges, and twice that of its calls.
cdef inline Py_ssize_t n_successors(Graph graph, Py_ssize_t s) noexcept nogil:
    return graph.edge_starts[s + 1] - graph.edge_starts[s] + 2 * (graph.call_starts[s + 1] - graph.call_starts[s])


# The i-th successor of a state: the targets of its edges, then the callee and the state to return to of each call.
cdef inline Py_ssize_t successor(Graph graph, Py_ssize_t s, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t k = graph.edge_starts[s] + i
    if k < graph.edge_starts[s + 1]:
        return graph.edges[k].target
    i = k - graph.edge_starts[s + 1]
    k = graph.call_starts[s] + (i >> 1)
    return graph.calls[k].back if i & 1 else graph.calls[k].callee
