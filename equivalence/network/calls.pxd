from equivalence.arrays.account cimport Account
from equivalence.network.edges cimport SortedEdges

cdef struct Rule:
    Py_ssize_t first, next, caller


cdef class Calls:
    cdef SortedEdges ordered
    cdef Py_ssize_t[::1] begins, ends, counted
    cdef Py_ssize_t n_rules, total
    cdef Rule[::1] rules
    cdef Py_ssize_t[::1] callees, owner, owner_room, order, order_room
    cdef Py_ssize_t n_found
    cdef Py_ssize_t[::1] seen
    cdef Py_ssize_t now
    cdef Py_ssize_t[::1] stack
    cdef Py_ssize_t[:, ::1] pairs, pairs_room
    cdef Py_ssize_t n_pairs
    cdef unsigned char[::1] empty, empty_room
    cdef Py_ssize_t[::1] degree, caller_starts, callers
    cdef Account account

    cdef int prepare(self, Py_ssize_t[::1] begins, Py_ssize_t[::1] ends, Py_ssize_t[::1] counted) except -1 nogil
    cdef int grow_rules(self) except -1
    cdef int grow_states(self, Py_ssize_t n_states) except -1
    cdef int grow_pairs(self, Py_ssize_t n_pairs) except -1
    cdef int find_order(self, Py_ssize_t root) except -1 nogil
    cdef int find_nullable(self) except -1 nogil
    cdef int find_left_calls(self) except -1 nogil
    cdef int find_callees(self) except -1 nogil
    cdef int sort(self, Py_ssize_t root) except -1 nogil
    cdef int may_be_empty(self, Py_ssize_t rule) except -1 nogil
    cdef Py_ssize_t list_first_states(self, Py_ssize_t rule) except -1 nogil
    cdef int note_pair(self, Py_ssize_t caller, Py_ssize_t callee) except -1 nogil
    cdef int collect_left_calls(self, Py_ssize_t rule) except -1 nogil
    cdef int keep_cycles(self) except -1 nogil
    cdef int list_callers(self) except -1 nogil
