from equivalence.network.edges cimport Edges


cdef class Rows:
    cdef readonly list names
    cdef readonly dict repeats
    cdef readonly dict edges_of_automata
    cdef readonly list automata
    cdef Edges _edges

    cpdef Py_ssize_t rule(self, str name)
    cpdef Py_ssize_t repeat(self, Py_ssize_t unit, Py_ssize_t least, object most)
    cpdef Py_ssize_t state(self)
    cpdef Py_ssize_t states(self, Py_ssize_t n)
    cpdef int empty(self, Py_ssize_t source, Py_ssize_t target) except -1
    cpdef int letter(self, Py_ssize_t source, Py_UCS4 letter, Py_ssize_t target) except -1
    cpdef int characters(self, Py_ssize_t source, Py_ssize_t low, Py_ssize_t high, Py_ssize_t target) except -1
    cpdef int call(self, Py_ssize_t source, Py_ssize_t rule, Py_ssize_t target) except -1
    cdef int call_shared(self, dict calling, Py_ssize_t source, Py_ssize_t rule, Py_ssize_t target) except -1
    cpdef Py_ssize_t run(self, str text, Py_ssize_t begin, Py_ssize_t target) except -1
    cpdef int text(self, Py_ssize_t source, str text, Py_ssize_t target) except -1
