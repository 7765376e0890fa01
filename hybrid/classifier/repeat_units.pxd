cdef struct Level:
    Py_ssize_t node, child, end, state, completed, worst
