from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.network.sorted_set cimport SortedSet
from equivalence.network.edges cimport Edges

cdef struct Todo:
    Py_ssize_t expression, source, target


cdef class Rules:
    cdef unsigned char[::1] is_reached, is_reached_room
    cdef Py_ssize_t[::1] queue
    cdef Py_ssize_t head, tail

    cdef int prepare(self, Py_ssize_t n) except -1
    cdef int find(self, Py_ssize_t rule) except -1 nogil
    cdef Py_ssize_t next(self) except -2 nogil


cdef class Builder:
    cdef const Py_ssize_t[::1] data, starts, bodies
    cdef Edges edges
    cdef Rules rules
    cdef Interned counted
    cdef SortedSet ranges
    cdef Todo[::1] stack
    cdef Py_ssize_t depth, position, length, source, target, max_states
    cdef Account account

    cdef int prepare(self, const Py_ssize_t[::1] data, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] bodies, Py_ssize_t max_states) except -1
    cdef int build(self, Py_ssize_t root) except -1 nogil
    cdef int follow(self, Py_ssize_t expression, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int grow_stack(self) except -1
    cdef int expand(self) except -1 nogil
    cdef int refuse_type(self, Py_ssize_t expression_type) except -1
    cdef int text(self) except -1 nogil
    cdef int character(self) except -1 nogil
    cdef int parts(self, bint sequence) except -1 nogil
    cdef int repeat(self, Py_ssize_t unit, Py_ssize_t least, Py_ssize_t most) except -1 nogil
    cdef Py_ssize_t call(self, Py_ssize_t rule, Py_ssize_t source) except -1 nogil
