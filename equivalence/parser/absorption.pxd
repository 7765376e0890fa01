from equivalence.parser.automaton cimport Automaton


cdef class Search:
    cdef Automaton automaton
    cdef Py_ssize_t[:, ::1] closed
    cdef Py_ssize_t[::1] sizes, reached, stamp
    cdef Py_ssize_t n_reached, n_left

    cdef bint absorbs(self, Py_ssize_t state) noexcept nogil
    cdef bint close(self, Py_ssize_t state, Py_ssize_t row) noexcept nogil
    cdef bint moves_are_kept(self) noexcept nogil
    cdef Py_ssize_t n_moves(self, const Py_ssize_t[::1] starts, Py_ssize_t row) noexcept nogil
    cdef bint has_edge(self, Py_ssize_t edge) noexcept nogil
    cdef bint has_call(self, Py_ssize_t call) noexcept nogil
    cdef bint reach(self, Py_ssize_t origin) noexcept nogil
    cdef inline bint note(self, Py_ssize_t target, Py_ssize_t origin) noexcept nogil
