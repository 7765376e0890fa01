# Add a row of flags (0 or 1) to a row of another table, or of the same one. Return whether that changes it.
cdef inline bint unite(unsigned char[:, ::1] to, Py_ssize_t at, const unsigned char[:, ::1] rows, Py_ssize_t row) noexcept nogil:
    cdef unsigned char more = 0
    cdef Py_ssize_t c
    for c in range(to.shape[1]):
        more |= rows[row, c] & ~to[at, c]
        to[at, c] |= rows[row, c]
    return more != 0
