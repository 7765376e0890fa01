cimport cython

from hybrid.classifier.counter_abstraction cimport Counters
from hybrid.classifier.walk_output cimport WalkOutput


cdef struct Step:
    Py_ssize_t configuration, child, end, has_ports


@cython.no_gc
cdef class Walker(WalkOutput):
    cdef const int[::1] height
    cdef Counters counters
    cdef Step[::1] path
    cdef Py_ssize_t n_states, longest, most_entered
    cdef readonly Py_ssize_t n_entered
    cdef Py_ssize_t mask

    cdef int read_top(self, Py_ssize_t state) except -1 nogil
    cdef Py_ssize_t symbol_of(self, Py_ssize_t state, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t summary(self, Py_ssize_t pending, Py_ssize_t symbol) except -1 nogil
    cdef int read_below(self, Py_ssize_t pair) except -1 nogil
    cdef Py_ssize_t unit_at(self, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t own_of(self, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t begin_on(self, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t read_from(self, Py_ssize_t pending, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t walk_from(self, Py_ssize_t pending, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t walk(self, Py_ssize_t node, Py_ssize_t configuration, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t next_to_enter(self, Py_ssize_t i, Py_ssize_t last, Py_ssize_t above) except -1 nogil
    cdef Py_ssize_t child_from(self, Py_ssize_t i, Py_ssize_t last, Py_ssize_t byte) noexcept nogil
    cdef bint enter(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef int forget_counts(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef bint loops_below(self, Py_ssize_t i, Py_ssize_t configuration) noexcept nogil
