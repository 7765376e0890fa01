from equivalence.parser.automaton cimport Automaton


cdef class CanonicalForm:
    cdef Automaton automaton
    cdef int[::1] place
    cdef Py_ssize_t[::1] order, words
    cdef Py_ssize_t n_states, n_words
    cdef bint is_too_large

    cdef int begin(self) except -1
    cdef object as_bytes(self)
    cdef int put_state(self, Py_ssize_t state) except -1
    cdef int put_unit(self, Py_ssize_t unit) except -1
    cdef int put_automaton(self, Py_ssize_t unit) except -1
    cdef Py_ssize_t number(self, Py_ssize_t state) except -1
    cdef int put(self, Py_ssize_t word) except -1
