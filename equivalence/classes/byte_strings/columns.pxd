cdef class Columns:
    cdef const Py_ssize_t[::1] starts
    cdef const Py_ssize_t[:, ::1] rows
    cdef Py_ssize_t n_states
    cdef Py_ssize_t[:, ::1] columns
    cdef Py_ssize_t[::1] set_starts
    cdef Py_ssize_t[::1] entries
    cdef Py_ssize_t n_sets
    cdef Py_ssize_t[::1] part_of_state
    cdef Py_ssize_t[::1] example

    cdef int grow(self, Py_ssize_t room) except -1
    cdef int fill(self, Py_ssize_t state) except -1 nogil
    cdef Py_ssize_t collect(self, Py_ssize_t state, Py_ssize_t byte) noexcept nogil
    cdef bint is_set(self, Py_ssize_t number, Py_ssize_t count) noexcept nogil
    cdef int number_parts(self) except -1
