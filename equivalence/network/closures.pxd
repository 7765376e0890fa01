from equivalence.network.sorted_set cimport SortedSet
from equivalence.network.deterministic cimport Deterministic
from equivalence.network.edges cimport Edge, SortedEdges

cdef struct Copied:
    int state, back

cdef struct Element:
    Py_ssize_t stamp, subset


cdef class Closures:
    cdef const Py_ssize_t[::1] starts
    cdef Edge[::1] edges
    cdef const Py_ssize_t[::1] begins, ends
    cdef const unsigned char[::1] nullable
    cdef Deterministic automata
    cdef Py_ssize_t n_states
    cdef Copied[::1] copies
    cdef Py_ssize_t n_copies
    cdef Py_ssize_t[::1] copy_of_edge
    cdef Py_ssize_t rule, end
    cdef Element[::1] elements
    cdef Py_ssize_t stamp
    cdef Py_ssize_t[::1] stack
    cdef Py_ssize_t depth
    cdef SortedSet members
    cdef bint ends_here
    cdef Py_ssize_t[::1] path

    cdef void begin_rule(self, Py_ssize_t rule) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void push(self, Py_ssize_t element) noexcept nogil
    cdef int close(self) except -1 nogil
    cdef int follow(self, Py_ssize_t element) except -1 nogil
    cdef int follow_call(self, Py_ssize_t k) except -1 nogil
    cdef Py_ssize_t copied(self, Py_ssize_t k) except -1 nogil
    cdef bint is_tail(self, Py_ssize_t k) noexcept nogil
    cdef bint is_pure_end(self, Py_ssize_t state) noexcept nogil
    cdef int grow_copies(self, Py_ssize_t wanted) except -1
    cdef int prepare(self, SortedEdges ordered, const Py_ssize_t[::1] begins, const Py_ssize_t[::1] ends, const unsigned char[::1] nullable) except -1 nogil
