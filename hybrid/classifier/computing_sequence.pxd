from hybrid.classifier.cached_sequence cimport CachedSequence
from hybrid.classifier.named_ids cimport NamedIds
from hybrid.classifier.rows cimport Rows


cdef class ComputingSequence(CachedSequence):
    cdef readonly object compiled
    cdef readonly object classifier
    cdef readonly object tokens
    cdef readonly NamedIds ids

    cdef bint has_room(self, object session) except -1
    cdef int compute_step(self, Py_ssize_t token) except -2
    cdef Py_ssize_t step_of(self, Py_ssize_t config, Py_ssize_t token) except -2
    cdef bint compute_mask(self) except -1
    cdef bint mask_at(self, Py_ssize_t config) except -1
    cpdef int make_row(self, object session, Rows rows, Py_ssize_t config) except -1
    cdef int make_row_unlimited(self, object session, Rows rows, Py_ssize_t config) except -1
