cdef class Minima:
    cdef const Py_ssize_t[::1] ids
    cdef const Py_ssize_t[::1] sizes
    cdef readonly Py_ssize_t id
    cdef readonly Py_ssize_t size

    cpdef void look(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
