# Insert into the sorted run ``values[:count]`` without duplicates; the new length.
cdef inline Py_ssize_t insert_sorted(Py_ssize_t[::1] values, Py_ssize_t count, Py_ssize_t value) noexcept nogil:
    cdef Py_ssize_t i = count
    cdef Py_ssize_t k = count
    while i > 0 and values[i - 1] > value:
        i -= 1
    if i > 0 and values[i - 1] == value:
        return count
    while k > i:
        values[k] = values[k - 1]
        k -= 1
    values[i] = value
    return count + 1
