from equivalence.arrays.pairs cimport Pairs
from equivalence.parser.space cimport Space
from hybrid.classifier.summaries cimport Summaries
from hybrid.classifier.walker cimport Walker


cdef struct Level:
    Py_ssize_t read, next, mask


cdef class Reader:
    cdef readonly Walker walker
    cdef Space space
    cdef Summaries summaries
    cdef Pairs reads, unions
    cdef Level[::1] levels
    cdef int[::1] masks
    cdef Py_ssize_t[::1] row
    cdef Py_ssize_t only

    cdef Py_ssize_t mask_of(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t find(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t mask_on(self, Py_ssize_t state, Py_ssize_t tail) except -1 nogil
    cdef int enter(self, Py_ssize_t depth, Py_ssize_t number) except -1 nogil
    cdef Py_ssize_t read(self, Py_ssize_t number) except -1 nogil
    cdef Py_ssize_t read_frame(self, Py_ssize_t depth, Py_ssize_t frame) except -1 nogil
    cdef Py_ssize_t united(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil
    cdef void add(self, Py_ssize_t mask) noexcept nogil
    cdef void add_row(self, Py_ssize_t mask) noexcept nogil
    cdef int grow_masks(self) except -1
