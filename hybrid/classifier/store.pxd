from equivalence.arrays.account cimport Account
from equivalence.parser.space cimport Space
from hybrid.classifier.reader cimport Reader
from hybrid.classifier.summaries cimport Summaries
from hybrid.classifier.summariser cimport Summariser


cdef class Store:
    cdef readonly Account account
    cdef readonly Space space
    cdef readonly Summaries known
    cdef readonly Summariser summariser
    cdef readonly Reader reader
    cdef readonly object fixed
    cdef const unsigned char[::1] data
    cdef const Py_ssize_t[::1] offsets

    cdef Py_ssize_t after(self, Py_ssize_t configuration, Py_ssize_t token) except -1
    cdef Py_ssize_t after_text(self, Py_ssize_t configuration, bytes text) except -1
    cdef Py_ssize_t checked(self, Py_ssize_t configuration) except -1
    cdef const unsigned char *token_bytes(self) noexcept
    cdef Py_ssize_t step_over(self, Py_ssize_t configuration, const unsigned char *text, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef Py_ssize_t read_text(self, Py_ssize_t configuration, const unsigned char *text, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef Py_ssize_t tail_hash(self, Py_ssize_t tail, Py_ssize_t depth) noexcept
