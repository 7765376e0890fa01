cimport cython

from hybrid.classifier.vocabulary_walker cimport VocabularyWalker


cdef struct Pair:
    Py_ssize_t own, other, child, end


@cython.no_gc
cdef class DeltaWalker(VocabularyWalker):
    cdef Pair[::1] levels
    cdef readonly Py_ssize_t n_compared
    cdef Py_ssize_t loop_mask, loop_pending
    cdef Py_ssize_t[::1] removed
    cdef Py_ssize_t n_removed

    cdef int read_top(self, Py_ssize_t state) except -1 nogil
    cdef Py_ssize_t loop_of(self, Py_ssize_t begin) except -1 nogil
    cdef bint read_loop(self, Py_ssize_t state, Py_ssize_t loop) except -1 nogil
    cdef Py_ssize_t frame_of(self, Py_ssize_t tail) noexcept nogil
    cdef bint follows_alike(self, Py_ssize_t state, Py_ssize_t other) noexcept nogil
    cdef bint read_by_comparison(self, Py_ssize_t state, Py_ssize_t begin, Py_ssize_t loop) except -1 nogil
    cdef int subtract(self) except -1
    cdef object ranges_of(self, Py_ssize_t piece)
    cdef Py_ssize_t with_nodes(self, Py_ssize_t pending, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t compare(self, Py_ssize_t begin, Py_ssize_t other) except -2 nogil
