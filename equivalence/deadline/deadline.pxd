cdef class Deadline:
    cdef readonly object seconds
    cdef double _ends
    cdef int _is_cancelled
    cdef list _told, _parts

    cdef bint passed(self, double now) noexcept nogil


cdef class Stop:
    cdef Deadline _deadline
    cdef object _phase
    cdef Py_ssize_t _every
    cdef double _looked, _heard

    cdef Py_ssize_t look(self) except -1 nogil
    cdef int _hear(self) except -1
