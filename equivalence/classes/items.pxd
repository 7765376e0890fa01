from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.arrays.pairs cimport Pairs
from equivalence.parser.space cimport Space


cdef struct Row:
    Py_ssize_t tag, value


cdef class Items:
    cdef Space space
    cdef Account account
    cdef Interned outcomes, sets, items
    cdef Pairs memo
    cdef bint displacement
    cdef Py_ssize_t most
    cdef const Py_ssize_t[::1] below_starts, below_of_symbol, symbol_index
    cdef const unsigned char[:, ::1] first, symbol_first, return_first
    cdef const int[::1] suffix_parent
    cdef const unsigned char[::1] suffix_byte
    cdef Row[::1] rows
    cdef Py_ssize_t n_rows
    cdef Py_ssize_t[::1] item_starts, leads, lead_stamp, symbol_start, pairs

    cdef int find_starts(self, const Py_ssize_t[::1] symbols) except -1
    cdef Py_ssize_t outcome_on(self, Py_ssize_t suffixes, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t read_symbol(self, Py_ssize_t suffixes, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t leave(self, Py_ssize_t configuration, Py_ssize_t suffix, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t add_pair(self, Py_ssize_t n, Py_ssize_t pair) except -1 nogil
    cdef int read_item(self, Py_ssize_t item) except -1 nogil
    cdef Py_ssize_t find_leads(self, Py_ssize_t suffixes, Py_ssize_t item) noexcept nogil
    cdef int add_rows(self, Py_ssize_t outcome, Py_ssize_t below) except -1 nogil
    cdef inline int add_row(self, Py_ssize_t tag, Py_ssize_t value) except -1 nogil
    cdef Py_ssize_t own_bytes(self) except? -1
    cdef int grow_rows(self) except -1
    cdef int grow_item_starts(self) except -1
