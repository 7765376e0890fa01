cdef struct Level:
    Py_ssize_t node
    Py_ssize_t child
    Py_ssize_t end
    Py_ssize_t state
    Py_ssize_t completed
    Py_ssize_t worst
