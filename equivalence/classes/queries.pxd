from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned


cdef class Search:
    cdef const Py_ssize_t[::1] event_starts
    cdef const Py_ssize_t[:, ::1] events
    cdef const Py_ssize_t[:, ::1] users
    cdef Py_ssize_t[::1] user_starts  # where the users of each block begin
    cdef int[::1] places  # the rows of users, by block
    cdef const Py_ssize_t[::1] context_starts, context_below
    cdef Py_ssize_t[::1] answered  # for each outcome, 1 + the last block whose queries were added
    cdef Py_ssize_t[::1] noted  # for each below set, 1 + the last block that listed it
    cdef Py_ssize_t[::1] belows  # the distinct below sets of the current block
    cdef Py_ssize_t n_belows
    cdef Interned queries
    cdef Account account

    cdef int find(self, Py_ssize_t n_outcomes) except -1
    cdef void note_belows(self, Py_ssize_t block) noexcept nogil
    cdef int ask(self, Py_ssize_t block) except -1 nogil
