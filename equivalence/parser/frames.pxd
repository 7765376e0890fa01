# What `frames.py` says, in the form that compilers put in place of the call.
cdef inline Py_ssize_t counting(Py_ssize_t unit, Py_ssize_t relative) noexcept nogil:
    return -2 - (2 * unit + relative)


cdef inline Py_ssize_t unit_of(Py_ssize_t state) noexcept nogil:
    return (-2 - state) >> 1


cdef inline Py_ssize_t relative_of(Py_ssize_t state) noexcept nogil:
    return (-2 - state) & 1
