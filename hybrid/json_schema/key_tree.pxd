cdef class Branch:
    cdef readonly str label
    cdef readonly KeyTree below
    cdef Py_ssize_t behind_first


cdef class KeyTree:
    cdef readonly dict branches
    cdef readonly Py_ssize_t state
    cdef Py_ssize_t begin

    cpdef KeyTree with_key(self, str key, Py_ssize_t state)


cdef Py_ssize_t n_common(str label, str key, Py_ssize_t begin) except -1
