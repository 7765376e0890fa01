from equivalence.arrays.account cimport Account
from equivalence.network.graph cimport Graph
from equivalence.network.signatures cimport Signatures

cdef struct State:
    Py_ssize_t place, turn

cdef struct Block:
    Py_ssize_t first, count, looked, placed, largest

cdef struct Group:
    Py_ssize_t block, count, end

cdef struct Looked:
    Py_ssize_t state, group


cdef class Refinement:
    cdef Graph graph
    cdef Signatures signatures
    cdef Account account
    cdef Py_ssize_t[::1] predecessor_starts, predecessors
    cdef State[::1] states
    cdef Py_ssize_t[::1] members
    cdef Block[::1] blocks
    cdef readonly Py_ssize_t n_blocks
    cdef Looked[::1] queue
    cdef Py_ssize_t n_queue
    cdef Group[::1] groups
    cdef Py_ssize_t n_groups
    cdef Py_ssize_t[::1] moved
    cdef Py_ssize_t n_moved, round

    cdef void find_predecessors(self) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void drop_singletons(self) noexcept nogil
    cdef int group_queue(self) except -1 nogil
    cdef void choose_largest(self) noexcept nogil
    cdef void order_members(self) noexcept nogil
    cdef void add_block(self, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef void split_rests(self) noexcept nogil
    cdef void split_groups(self) noexcept nogil
    cdef void name_moved(self) noexcept nogil
    cdef int refine(self) except -1 nogil
    cdef int grow(self, Py_ssize_t room) except -1
    cdef int prepare(self) except -1 nogil
