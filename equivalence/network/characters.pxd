from equivalence.network.edges cimport Edges


cpdef tuple in_bytes(Edges read, Py_ssize_t n_states, Py_ssize_t n_rules)
