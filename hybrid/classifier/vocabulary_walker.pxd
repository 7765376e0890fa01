cimport cython

from equivalence.arrays.interning cimport Interned
from hybrid.classifier.canonical_form cimport CanonicalForm
from hybrid.classifier.walker cimport Walker


@cython.no_gc
cdef class VocabularyWalker(Walker):
    cdef readonly Interned pieces
    cdef object fixed
    cdef bint filters
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens
    cdef object walk_cache
    cdef Py_ssize_t few_nodes, wide_bytes
    cdef CanonicalForm contents
    cdef readonly list reads
    cdef dict number_of_read
    cdef object key
    cdef dict unit_tables

    cdef int load_follow_sets(self) except -1
    cdef void follow_all(self) noexcept nogil
    cdef bint is_wide(self, Py_ssize_t pending, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t read_long(self, Py_ssize_t pending, Py_ssize_t symbol, bint is_new) except -1 nogil
    cdef Py_ssize_t from_cache(self, Py_ssize_t pending, Py_ssize_t symbol) except -2
    cdef Py_ssize_t from_units(self, Py_ssize_t pending, Py_ssize_t symbol, bint is_long) except -2
    cdef Py_ssize_t use_cached(self, object read, object nodes) except -1
    cdef int keep(self, Py_ssize_t n) except -1
    cdef int record_read(self, object read) except -1
