cdef class Boundaries:
    cdef Py_ssize_t[::1] words, before
    cdef Py_ssize_t count

    cdef inline void add(self, Py_ssize_t group) noexcept nogil
    cdef void number(self) noexcept nogil
    cdef void list_into(self, Py_ssize_t[::1] starts) noexcept nogil
    cdef inline Py_ssize_t run_from(self, Py_ssize_t group) noexcept nogil
