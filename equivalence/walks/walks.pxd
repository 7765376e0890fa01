from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.parser.character_loops cimport CharacterLoops
from equivalence.parser.space cimport Space
from equivalence.trie.nodes cimport Node


cdef struct Level:
    Py_ssize_t configuration, n_returns, child, end


cdef struct Return:
    Py_ssize_t depth, port


cdef struct Range:
    Py_ssize_t first, end


cdef struct Event:
    Py_ssize_t group, outcome


cdef class Walks:
    cdef Space space
    cdef CharacterLoops loops
    cdef Account account
    cdef readonly Interned outcomes
    cdef const Node[::1] nodes
    cdef const int[::1] suffix_parent, group_suffix
    cdef bint displacement
    cdef Level[::1] levels
    cdef Return[::1] returns
    cdef Py_ssize_t[::1] pairs
    cdef const unsigned char[:, ::1] first
    cdef Py_ssize_t row, start
    cdef Range[::1] ranges
    cdef Event[::1] events
    cdef object range_rows, event_rows
    cdef Py_ssize_t n_ranges, n_events, open_range

    cdef int walk(self, Py_ssize_t node) except -1 nogil
    cdef inline Py_ssize_t next_to_enter(self, Py_ssize_t i, Py_ssize_t last, Py_ssize_t above, Py_ssize_t n_returns) noexcept nogil
    cdef inline bint loops_below(self, Py_ssize_t i, Py_ssize_t configuration) noexcept nogil
    cdef Py_ssize_t enter(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef inline Py_ssize_t read_outright(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef inline Py_ssize_t descend(self, Py_ssize_t i, Py_ssize_t d) noexcept nogil
    cdef inline void add_range(self, Py_ssize_t first, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t add_returns(self, Py_ssize_t configuration, Py_ssize_t depth, Py_ssize_t n) except -1 nogil
    cdef int add_event(self, Py_ssize_t label, Py_ssize_t n_returns, Py_ssize_t group) except -1 nogil
    cdef object keep_rows(self, object ranges, object events)
    cdef int grow(self, Py_ssize_t room) except -1
