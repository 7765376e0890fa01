from equivalence.network.sorted_set cimport SortedSet


cdef struct Edge:
    int source, type, a, b, target


cdef class Edges:
    cdef object array
    cdef Edge[::1] rows
    cdef readonly Py_ssize_t count, n_states
    cdef Py_ssize_t[::1] shared

    cdef Py_ssize_t state(self) noexcept nogil
    cdef int add(self, Py_ssize_t source, Py_ssize_t edge_type, Py_ssize_t a, Py_ssize_t b, Py_ssize_t target) except -1 nogil
    cdef int characters(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int code_points(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int loose_code_points(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int encodings(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t length, Py_ssize_t lead, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int behind(self, Py_ssize_t byte, Py_ssize_t low, Py_ssize_t high, Py_ssize_t length, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef Py_ssize_t continued(self, Py_ssize_t length, Py_ssize_t target) except -1 nogil
    cdef int loosely(self, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int others(self, SortedSet ranges, Py_ssize_t source, Py_ssize_t target) except -1 nogil
    cdef int make_rows(self, Py_ssize_t room) except -1
    cdef int grow(self) except -1
    cdef int renew(self, Py_ssize_t n_states, Py_ssize_t room) except -1


cdef class SortedEdges:
    cdef Py_ssize_t[::1] starts, starts_room
    cdef Edge[::1] rows, rows_room

    cdef int prepare(self, Py_ssize_t n_edges, Py_ssize_t n_states) except -1 nogil
    cdef int sort(self, Edges edges) except -1 nogil
