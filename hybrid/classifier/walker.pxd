cimport cython

from hybrid.classifier.canonical_form cimport CanonicalForm
from hybrid.classifier.counter_abstraction cimport Counters
from hybrid.classifier.walk_output cimport WalkOutput


cdef struct Step:
    Py_ssize_t configuration, child, end, has_ports


@cython.no_gc
cdef class Walker(WalkOutput):
    cdef const int[::1] height
    cdef Counters counters
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens
    cdef Step[::1] path
    cdef Py_ssize_t most_entered
    cdef object walk_cache
    cdef Py_ssize_t few_nodes, wide_bytes
    cdef CanonicalForm contents
    cdef readonly list reads
    cdef dict number_of_read
    cdef object key
    cdef dict unit_tables
    cdef Py_ssize_t mask

    cdef Py_ssize_t read_from(self, Py_ssize_t pending, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t walk_from(self, Py_ssize_t pending, Py_ssize_t symbol) except -1 nogil
    cdef bint is_wide(self, Py_ssize_t pending, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t read_long(self, Py_ssize_t pending, Py_ssize_t symbol, bint is_new) except -1 nogil
    cdef Py_ssize_t from_cache(self, Py_ssize_t pending, Py_ssize_t symbol) except -2
    cdef Py_ssize_t from_units(self, Py_ssize_t pending, Py_ssize_t symbol, bint is_long) except -2
    cdef Py_ssize_t use_cached(self, object read, object nodes) except -1
    cdef int keep(self, Py_ssize_t n) except -1
    cdef int record_read(self, object read) except -1
    cdef Py_ssize_t walk(self, Py_ssize_t node, Py_ssize_t configuration, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t next_to_enter(self, Py_ssize_t i, Py_ssize_t last, Py_ssize_t above) except -1 nogil
    cdef Py_ssize_t child_from(self, Py_ssize_t i, Py_ssize_t last, Py_ssize_t byte) noexcept nogil
    cdef bint enter(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef int forget_counts(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef int learn(self, Py_ssize_t byte, Py_ssize_t d) except -1 nogil
    cdef bint loops_below(self, Py_ssize_t i, Py_ssize_t configuration) noexcept nogil
