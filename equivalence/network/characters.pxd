from equivalence.network.edges cimport Edges


cdef tuple in_bytes(Edges read, Py_ssize_t n_states, Py_ssize_t n_rules)
