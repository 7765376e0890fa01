from hybrid.classifier.known cimport Known
from hybrid.classifier.named_ids cimport NamedIds


cdef class Meeting(Known):
    cdef readonly object compiled
    cdef readonly object classifier
    cdef readonly object tokens
    cdef readonly NamedIds ids

    cdef bint has_room(self, object session) except -1
    cdef int meet_step(self, Py_ssize_t token) except -2
    cdef Py_ssize_t step_of(self, Py_ssize_t config, Py_ssize_t token) except -2
    cdef int look(self) except -1
    cdef bint meet_mask(self) except -1
    cdef bint mask_at(self, Py_ssize_t config) except -1
