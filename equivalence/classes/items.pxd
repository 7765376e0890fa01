from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.classes.symbols cimport Symbols
from equivalence.parser.space cimport Space


cdef struct Row:
    Py_ssize_t tag, value


cdef class Items:
    cdef Space space
    cdef Account account
    cdef Interned outcomes, sets, items
    cdef Symbols symbols
    cdef Py_ssize_t most
    cdef const Py_ssize_t[::1] below_starts, below_of_symbol, symbol_index
    cdef const unsigned char[:, ::1] first, symbol_first
    cdef const unsigned char[::1] suffix_byte
    cdef Row[::1] rows
    cdef Py_ssize_t n_rows
    cdef Py_ssize_t[::1] item_starts, leads, lead_stamp

    cdef int read_item(self, Py_ssize_t item) except -1 nogil
    cdef Py_ssize_t find_leads(self, Py_ssize_t suffixes, Py_ssize_t item) noexcept nogil
    cdef int add_rows(self, Py_ssize_t outcome, Py_ssize_t below) except -1 nogil
    cdef inline int add_row(self, Py_ssize_t tag, Py_ssize_t value) except -1 nogil
    cdef Py_ssize_t own_bytes(self) except? -1
    cdef int grow_rows(self) except -1
    cdef int grow_item_starts(self) except -1
