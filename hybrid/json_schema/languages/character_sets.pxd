from equivalence.arrays.interning cimport Interned


cdef class CharacterSets:
    cdef list ranges, _cuts, _members
    cdef dict _numbers, _runs
    cdef Py_ssize_t _n_cut, _n_runs
    cdef Interned selections
    cdef Py_ssize_t[::1] lows, classes

    cdef Py_ssize_t number(self, tuple ranges) except -1
    cdef Py_ssize_t only(self, Py_ssize_t number) except -1
    cdef bint contains(self, Py_ssize_t selection, Py_ssize_t number) noexcept
    cdef Py_ssize_t either(self, Py_ssize_t one, Py_ssize_t other) except -1
    cdef Py_ssize_t both(self, Py_ssize_t one, Py_ssize_t other) except -1
    cdef Py_ssize_t length(self, Py_ssize_t selection) noexcept
    cdef tuple runs_of(self, Py_ssize_t selection)
    cdef int _cut(self) except -1
    cdef int _add_part(self, Py_ssize_t low, Py_ssize_t[::1] words) except -1
