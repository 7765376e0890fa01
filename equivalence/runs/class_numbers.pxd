cpdef Py_ssize_t least_in(const Py_ssize_t[::1] tree, Py_ssize_t begin, Py_ssize_t end) noexcept nogil
