from equivalence.arrays.interning cimport Interned


# Number the outcome with a label and n sorted pairs (port << 30) + suffix.
cdef inline Py_ssize_t outcome_of(Interned outcomes, Py_ssize_t label, const Py_ssize_t[::1] pairs, Py_ssize_t n) except -1 nogil:
    cdef Py_ssize_t at = outcomes.room(1 + 2 * n)
    cdef Py_ssize_t k
    outcomes.pool[at] = label
    for k in range(n):
        outcomes.pool[at + 1 + 2 * k] = pairs[k] >> 30
        outcomes.pool[at + 2 + 2 * k] = pairs[k] & 0x3FFFFFFF
    return outcomes.intern(1 + 2 * n)
