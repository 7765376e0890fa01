cimport cython

from equivalence.arrays.account cimport Account
from equivalence.parser.automaton cimport Automaton


cdef struct ByteClass:
    Py_ssize_t byte, word_0, word_1


@cython.no_gc
cdef class ByteTables:
    cdef readonly object class_of_byte
    cdef readonly object first_bits
    cdef readonly Py_ssize_t n_classes
    cdef ByteClass[::1] rows
    cdef const Py_ssize_t[::1] class_row
    cdef const unsigned long long[:, ::1] bits

    cdef void fill_rows(self) noexcept nogil


cdef int fill_bits(Automaton automaton, const Py_ssize_t[::1] class_of_byte, const Py_ssize_t[::1] ranks, unsigned long long[:, ::1] bits, Account account, Py_ssize_t[::1] room) except -1 nogil
cdef Py_ssize_t divide_bytes(Automaton automaton, Py_ssize_t[::1] class_of_byte) noexcept nogil
cdef void find_ranks(Automaton automaton, Py_ssize_t[::1] rank, Py_ssize_t[::1] at, Py_ssize_t[::1] path) noexcept nogil
cdef void by_rank(const Py_ssize_t[::1] rank, Py_ssize_t[::1] order, Py_ssize_t[::1] places) noexcept nogil
