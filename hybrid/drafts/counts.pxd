cdef class Counts:
    cdef int[:, ::1] rows
    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t most
    cdef Py_ssize_t[8] tokens
    cdef double[8] shares
    cdef Py_ssize_t[8] places
    cdef Py_ssize_t[8] checks

    cdef void look_up(self, const Py_ssize_t *recent, Py_ssize_t top) noexcept
    cdef Py_ssize_t find(self, Py_ssize_t place, Py_ssize_t check) noexcept
    cdef Py_ssize_t claim(self, Py_ssize_t place, Py_ssize_t check)
    cdef void add(self, Py_ssize_t slot, Py_ssize_t token, Py_ssize_t count) noexcept
    cdef int learn_one(self, const Py_ssize_t *recent, Py_ssize_t top, Py_ssize_t token) except -1
    cdef Py_ssize_t guess(self, const Py_ssize_t *recent, Py_ssize_t top, Py_ssize_t prior, double share) noexcept
    cdef Py_ssize_t put(self, Py_ssize_t n, Py_ssize_t token, double share) noexcept
