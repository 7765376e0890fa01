from equivalence.network.edges cimport Edges


cpdef int in_bytes(Edges read, Py_ssize_t n_rules, Edges edges) except -1
