from equivalence.arrays.account cimport Account


cdef class Parts:
    cdef Py_ssize_t[:, ::1] table
    cdef Py_ssize_t count
    cdef Account account

    cdef int make_room(self, Py_ssize_t n_events) except -1
    cdef Py_ssize_t part(self, Py_ssize_t old, Py_ssize_t outcome, Py_ssize_t first_new) noexcept nogil


cdef int split(Parts parts, int[::1] classes, const Py_ssize_t[::1] event_starts, const Py_ssize_t[:, ::1] events) except -1 nogil
