cdef struct Step:
    int configuration
    int token
    int following
    int unused


cdef class Steps:
    cdef Step[::1] table
    cdef Py_ssize_t count


# Inlined where it is used, so that a known step reads no other module's code.
cdef inline Py_ssize_t slot_of(Steps steps, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t last = steps.table.shape[0] - 1
    cdef Py_ssize_t h = (configuration * 0x2545F491) ^ (token * 0x61C88647)
    cdef Py_ssize_t slot = (h ^ (h >> 17)) & last
    while steps.table[slot].configuration >= 0:
        if steps.table[slot].configuration == configuration and steps.table[slot].token == token:
            break
        slot = (slot + 1) & last
    return slot


cdef inline Py_ssize_t following(Steps steps, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t slot = slot_of(steps, configuration, token)
    return steps.table[slot].following if steps.table[slot].configuration >= 0 else -1
