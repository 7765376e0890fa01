from equivalence.parser.automaton cimport Automaton


cdef void find_ranks(Automaton automaton, Py_ssize_t[::1] rank, Py_ssize_t[::1] at, Py_ssize_t[::1] path) noexcept nogil
cdef void by_rank(const Py_ssize_t[::1] rank, Py_ssize_t[::1] order, Py_ssize_t[::1] places) noexcept nogil
