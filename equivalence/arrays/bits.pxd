# Whether a row of bits, in words of 64, has one at a place.
cdef inline bint has_bit(const unsigned long long[:, ::1] rows, Py_ssize_t row, Py_ssize_t place) noexcept nogil:
    return (rows[row, place >> 6] >> (place & 63)) & 1
