from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from hybrid.classifier.summaries cimport Summaries
from equivalence.arrays.pairs cimport Pairs


cdef class Reader:
    cdef Pairs nodes
    cdef Summaries summaries
    cdef Interned kinds, frontiers
    cdef Account account
    cdef const Py_ssize_t[::1] top_start
    cdef const int[::1] top_kind
    cdef const Py_ssize_t[::1] top_outcome
    cdef const int[:, ::1] place
    cdef const int[::1] color_list
    cdef const Py_ssize_t[::1] color_start
    cdef const Py_ssize_t[::1] color_outcome

    cdef Py_ssize_t kinds_of(self, Py_ssize_t node) except -1 nogil
    cdef Py_ssize_t read(self, Py_ssize_t node) except -1 nogil
    cdef Py_ssize_t skipped(self, Py_ssize_t frontier, Py_ssize_t below) noexcept nogil
    cdef Py_ssize_t pair_of(self, Py_ssize_t frontier, Py_ssize_t state) except -1 nogil
    cdef int read_top(self, Py_ssize_t state) except -1 nogil
    cdef int read_below(self, Py_ssize_t pair) except -1 nogil
    cdef int begin(self, Py_ssize_t length) except -1 nogil
    cdef Py_ssize_t note(self, Py_ssize_t outcome, Py_ssize_t kind, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t frontier_of(self, Py_ssize_t n) except -1 nogil
