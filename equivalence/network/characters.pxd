from equivalence.network.edges cimport Edges


cpdef tuple in_bytes(Edges read, Py_ssize_t n_states, Py_ssize_t n_rules)
cdef Py_ssize_t continued(Edges edges, dict shared, Py_ssize_t length, Py_ssize_t target) except? -1
cdef int of_length(Edges edges, dict shared, Py_ssize_t low, Py_ssize_t high, Py_ssize_t length, Py_ssize_t lead, Py_ssize_t source, Py_ssize_t target) except? -1
cdef int behind(Edges edges, dict shared, Py_ssize_t low, Py_ssize_t high, Py_ssize_t length, Py_ssize_t source, Py_ssize_t byte, Py_ssize_t target) except? -1
cdef int characters(Edges edges, dict shared, Py_ssize_t low, Py_ssize_t high, Py_ssize_t source, Py_ssize_t target) except? -1
