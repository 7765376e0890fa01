cdef class Kind:
    cdef readonly str fields
    cdef readonly Py_ssize_t width, size
    cdef bytes format


cdef class Records:
    cdef Kind kind
    cdef object owner
    cdef char* start
    cdef Py_ssize_t count, stride
    cdef bint is_readonly


cdef Records empty(Kind kind, Py_ssize_t count)
cdef Records zeros(Kind kind, Py_ssize_t count)
cdef Records absent(Kind kind, Py_ssize_t count)
cdef Records of_array(object array, Kind kind)
