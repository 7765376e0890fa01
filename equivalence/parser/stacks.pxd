from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.parser.automaton cimport Automaton


cdef Py_ssize_t ABOVE_LABELS  # above every label

cdef struct Frame:
    Py_ssize_t state, count, tail, singleton, label


cdef class Stacks:
    cdef Automaton automaton
    cdef const unsigned char[::1] absorbing
    cdef Frame[::1] frames
    cdef int[::1] table
    cdef readonly Py_ssize_t n_frames
    cdef readonly Interned tails
    cdef Py_ssize_t[::1] label, seen
    cdef Account account
    cdef Py_ssize_t most_frames
    cdef object excess

    cdef Py_ssize_t frame(self, Py_ssize_t state, Py_ssize_t count, Py_ssize_t tail) except -1 nogil
    cdef Py_ssize_t plain(self, Py_ssize_t state, Py_ssize_t count, Py_ssize_t tail) except -1 nogil
    cdef Py_ssize_t find(self, Py_ssize_t state, Py_ssize_t count, Py_ssize_t tail) noexcept nogil
    cdef Py_ssize_t new_frame(self, Py_ssize_t state, Py_ssize_t count, Py_ssize_t tail) except -1 nogil
    cdef Py_ssize_t new_plain(self, Py_ssize_t state, Py_ssize_t count, Py_ssize_t tail) except -1 nogil
    cdef int note(self, Py_ssize_t state, Py_ssize_t count, Py_ssize_t tail, Py_ssize_t number) except -1 nogil
    cdef void enter(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t absorb(self, Py_ssize_t state, Py_ssize_t tail) except -2 nogil
    cdef Py_ssize_t tail_of(self, Py_ssize_t length, Py_ssize_t label) except -1 nogil
    cdef int grow_frames(self) except -1
    cdef int grow_tails(self) except -1
