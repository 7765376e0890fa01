from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.network.sorted_set cimport SortedSet


cdef class MergedStates:
    cdef const Py_ssize_t[::1] rule_first, rule_last, edge_starts
    cdef const Py_ssize_t[:, ::1] edges
    cdef const Py_ssize_t[::1] call_starts
    cdef const Py_ssize_t[:, ::1] calls
    cdef const Py_ssize_t[::1] representative_of, class_of, class_of_counted, order
    cdef const Py_ssize_t[:, ::1] counted
    cdef Py_ssize_t root, n_classes, n_counted_classes
    cdef Py_ssize_t[::1] rule_of_state
    cdef unsigned char[::1] is_end, is_top


cdef class BelowSets:
    cdef MergedStates states
    cdef Py_ssize_t total, max_states
    cdef Account account
    cdef unsigned char[::1] used
    cdef Interned pairs
    cdef Py_ssize_t[::1] under, tail_starts, call_starts, set_starts, members
    cdef int[::1] tail_calls, calls
    cdef Py_ssize_t n_members
    cdef unsigned char[::1] bottom
    cdef Py_ssize_t[::1] rule_seen, pair_seen, queue
    cdef SortedSet codes
    cdef Py_ssize_t[::1] number, example
    cdef Interned sets
    cdef Py_ssize_t[::1] set_of_rule

    cdef int note_calls(self, MergedStates states, int[::1] tail_callees, int[::1] callees) except -1
    cdef int gather(self, Py_ssize_t rule) except -1 nogil
    cdef int note_members(self, Py_ssize_t rule, Py_ssize_t below) except -1 nogil
    cdef Py_ssize_t intern_set(self, Py_ssize_t rule) except -1 nogil
    cdef int share_round(self, MergedStates states) except -1 nogil
