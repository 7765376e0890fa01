cdef double read() noexcept nogil
