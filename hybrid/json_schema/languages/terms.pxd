cdef class Terms:
    cdef list _all
    cdef dict _numbers
    cdef list _nullable
    cdef dict _sets
    cdef dict _first
    cdef list _intervals
    cdef dict _runs
    cdef Py_ssize_t _n_intervals_of
    cdef dict _derivatives
    cdef list _loops
    cdef dict _unfolded
    cdef Py_ssize_t _depth

    cdef int _enter(self) except -1
    cdef Py_ssize_t _of(self, tuple term) except -1
    cdef bint _is_nullable(self, tuple term) except -1
    cpdef bint nullable(self, Py_ssize_t term) except -1
    cpdef Py_ssize_t chars(self, tuple ranges) except -1
    cpdef Py_ssize_t some(self) except -1
    cpdef Py_ssize_t cat(self, Py_ssize_t one, Py_ssize_t other) except -1
    cpdef Py_ssize_t repeat(self, Py_ssize_t term, object least, object most) except -1
    cpdef Py_ssize_t either(self, object parts) except -1
    cpdef Py_ssize_t both(self, object parts) except -1
    cdef Py_ssize_t _join(self, Py_ssize_t op, object parts, Py_ssize_t neutral, Py_ssize_t absorbing) except -1
    cdef int _unite_repeats(self, set found) except -1
    cpdef Py_ssize_t other(self, Py_ssize_t term) except -1
    cpdef Py_ssize_t loop(self, object builder, object part, Py_ssize_t then) except -1
    cdef Py_ssize_t _unfold(self, Py_ssize_t number) except -1
    cdef list intervals(self)
    cdef list _runs_of(self, object relevant)
    cdef object first(self, Py_ssize_t term)
    cdef object _find_first(self, Py_ssize_t number, tuple term)
    cdef Py_ssize_t derivative(self, Py_ssize_t term, object members) except -1
    cdef Py_ssize_t _derive(self, Py_ssize_t number, tuple term, object members) except -1
    cpdef tuple explored(self, Py_ssize_t start, Py_ssize_t bound)
    cdef Py_ssize_t _numbered(self, Py_ssize_t term, dict numbers, list states, Py_ssize_t bound) except -2
