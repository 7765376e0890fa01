cdef class Residue:
    cdef Py_ssize_t unit, places, last
    cdef readonly object size
    cdef Py_ssize_t[::1] powers, within, moduli, lower, before, first

    cdef Py_ssize_t place_of(self, Py_ssize_t state) noexcept
    cdef Py_ssize_t digit(self, Py_ssize_t state, Py_ssize_t digit) noexcept
    cdef Py_ssize_t waiting(self, Py_ssize_t j, Py_ssize_t residue) noexcept
    cdef Py_ssize_t after(self, Py_ssize_t k, Py_ssize_t residue) noexcept
    cdef bint can_reach(self, Py_ssize_t residue, Py_ssize_t e) noexcept
    cdef Py_ssize_t point(self, Py_ssize_t state) noexcept
    cdef bint accepts(self, Py_ssize_t state) noexcept
