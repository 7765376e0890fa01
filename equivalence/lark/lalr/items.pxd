from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.arrays.pairs cimport Pairs
from equivalence.lark.lalr.simulation cimport Simulation


cdef class Items:
    cdef Simulation simulation
    cdef Account account
    cdef const unsigned char[:, :, ::1] beneath
    cdef Interned interned
    cdef readonly Interned lists
    cdef Pairs below
    cdef unsigned char[::1] status
    cdef Py_ssize_t[::1] edge_start, edge
    cdef readonly Py_ssize_t kept

    cdef Py_ssize_t edge_of(self, Py_ssize_t outcome, Py_ssize_t state) except -1 nogil
    cdef Py_ssize_t exposed(self, Py_ssize_t pops, Py_ssize_t state, Py_ssize_t nonterminal) except -1 nogil
    cdef int expand_all(self) except -1 nogil
    cdef int expand(self, Py_ssize_t item) except -1 nogil
    cdef bint said_more(self) noexcept nogil
    cdef void keep(self) noexcept nogil
    cdef void forget(self) noexcept nogil
    cdef int grow_items(self) except -1
    cdef int grow_edges(self, Py_ssize_t used, Py_ssize_t wanted) except -1
