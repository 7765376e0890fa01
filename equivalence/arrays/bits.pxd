# Whether a row of bits, in words of 64, has one at a place.
cdef inline bint has_bit(const unsigned long long[:, ::1] rows, Py_ssize_t row, Py_ssize_t place) noexcept nogil:
    return (rows[row, place >> 6] >> (place & 63)) & 1


# A word with all bits from a place on; from 64 on there are none.
cdef inline unsigned long long from_bit(Py_ssize_t place) noexcept nogil:
    cdef unsigned long long ones = 0
    return ~ones << place if place < 64 else ones
