cdef class Minima:
    cdef const Py_ssize_t[::1] ids, sizes
    cdef readonly Py_ssize_t id, size

    cpdef void find(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
