# Insert into the sorted run of `count` values at `begin`, without duplicates; the new length.
cdef inline Py_ssize_t insert_sorted(Py_ssize_t[::1] values, Py_ssize_t begin, Py_ssize_t count, Py_ssize_t value) noexcept nogil:
    cdef Py_ssize_t i = begin + count
    cdef Py_ssize_t k = i
    while i > begin and values[i - 1] > value:
        i -= 1
    if i > begin and values[i - 1] == value:
        return count
    while k > i:
        values[k] = values[k - 1]
        k -= 1
    values[i] = value
    return count + 1
