from equivalence.arrays.interning cimport Interned
from hybrid.lark.pairs cimport Pairs
from hybrid.lark.stacks cimport Stacks


cdef class Reader:
    cdef Pairs nodes
    cdef readonly Interned kinds
    cdef Interned frontiers
    cdef readonly Pairs reads
    cdef int[:, ::1] tops
    cdef Py_ssize_t[::1] words
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
    cdef Py_ssize_t read_on(self, Py_ssize_t frontier, Py_ssize_t state) except -1 nogil
    cdef int read_top(self, Py_ssize_t state) except -1 nogil
    cdef int read_below(self, Py_ssize_t row) except -1 nogil
    cdef int begin(self, Py_ssize_t length) except -1 nogil
    cdef Py_ssize_t note(self, Py_ssize_t outcome, Py_ssize_t kind, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t frontier_of(self, Py_ssize_t n) except -1 nogil
    cdef void add_words(self, Py_ssize_t kinds) noexcept nogil
    cdef Py_ssize_t interned_words(self) except -1 nogil
