from equivalence.parser.character_loops cimport CharacterLoops


cdef enum:
    ANY = 1 << 30  # a reach that no token exceeds


cdef struct Known:
    int replaced, reach, loops


cdef class Counters(CharacterLoops):
    cdef readonly bint any
    cdef Known[::1] known
    cdef Py_ssize_t room

    cdef Py_ssize_t with_smaller_count(self, Py_ssize_t configuration, Py_ssize_t height) except -1 nogil
    cdef int find_replacement(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t tail_with_smaller_count(self, Py_ssize_t tail) except -1 nogil
    cdef int grow(self) except -1


# Up to how many more units every count from this one on is on the same side of both bounds.
cdef inline Py_ssize_t room_of(Py_ssize_t count, Py_ssize_t least, Py_ssize_t most) noexcept nogil:
    if count < least:
        return least - count
    return most - count if most >= 0 else ANY


# A smaller count that no text of less than `reach` bytes distinguishes from this one, or the count itself.
cdef inline Py_ssize_t smaller_count(Py_ssize_t count, Py_ssize_t least, Py_ssize_t most, Py_ssize_t reach) noexcept nogil:
    if room_of(count, least, most) <= reach:
        return count
    return 0 if count < least else least
