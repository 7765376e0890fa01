from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.arrays.pairs cimport Pairs
from equivalence.lark.lalr.items cimport Items
from equivalence.lark.lalr.simulation cimport Simulation


cdef class SequenceNumbers:
    cdef Simulation simulation
    cdef readonly Items items
    cdef Pairs pairs
    cdef Interned rows
    cdef int[::1] number_of_row
    cdef Py_ssize_t[::1] cell
    cdef Account account

    cdef Py_ssize_t before(self, Py_ssize_t terminal, Py_ssize_t rest) except -1 nogil
    cdef Py_ssize_t new_sequence(self, Py_ssize_t terminal, Py_ssize_t rest) except -1 nogil
    cdef Py_ssize_t row_of(self, Py_ssize_t own) except -1 nogil
    cdef int find_edges(self, Py_ssize_t own) except -1 nogil
    cdef Py_ssize_t decide(self, Py_ssize_t own) noexcept nogil
    cdef int grow_rows(self) except -1
