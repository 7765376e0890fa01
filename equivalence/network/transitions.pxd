cdef struct Way:
    int last, target, next


cdef class Transitions:
    cdef Way[::1] rows
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t[::1] head, bounds
    cdef readonly Py_ssize_t n_bounds
    cdef unsigned char[::1] is_bound
    cdef Py_ssize_t[::1] active
    cdef readonly Py_ssize_t n_active

    cdef int make_room(self, Py_ssize_t wanted) except -1 nogil
    cdef int grow(self, Py_ssize_t wanted) except -1
    cdef void add(self, Py_ssize_t first, Py_ssize_t last, Py_ssize_t target) noexcept nogil
    cdef void add_bound(self, Py_ssize_t byte) noexcept nogil
    cdef void activate(self, Py_ssize_t first) noexcept nogil
    cdef void forget(self) noexcept nogil
