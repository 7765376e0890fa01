# Whether a row of bits, in words of 64, has one at a place.
cdef inline bint has_bit(const unsigned long long[:, ::1] rows, Py_ssize_t row, Py_ssize_t place) noexcept nogil:
    return (rows[row, place >> 6] >> (place & 63)) & 1


# The number of 1 bits in a word of 32 bits.
cdef inline Py_ssize_t ones(Py_ssize_t word) noexcept nogil:
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) >> 24) & 255
