cdef class SortedSet:
    cdef Py_ssize_t[::1] values, spare
    cdef Py_ssize_t n_spare
    cdef readonly Py_ssize_t count

    cdef int add(self, Py_ssize_t code) except -1 nogil
    cdef Py_ssize_t sort(self) except -1 nogil
    cdef int sort_runs(self) noexcept nogil
    cdef int merge_runs(self, Py_ssize_t width) noexcept nogil
