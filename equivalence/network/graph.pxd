from equivalence.arrays.interning cimport Interned
from equivalence.network.codes cimport Codes
from equivalence.network.deterministic cimport Span

cdef struct CallByState:
    Py_ssize_t callee
    Py_ssize_t bounds
    Py_ssize_t back


cdef class Graph:
    cdef readonly Py_ssize_t size
    cdef const unsigned char[::1] final
    cdef const Py_ssize_t[::1] edge_starts
    cdef Span[::1] edges
    cdef const Py_ssize_t[::1] call_starts
    cdef CallByState[::1] calls
    cdef readonly Py_ssize_t n_bounds
    cdef Py_ssize_t shift
    cdef Py_ssize_t[::1] name
    cdef Codes codes
    cdef Interned keys

    cdef Py_ssize_t named(self, Py_ssize_t target, Py_ssize_t s, Py_ssize_t own) noexcept nogil
    cdef Py_ssize_t write_key(self, Py_ssize_t s, Py_ssize_t own) except -1 nogil
    cdef Py_ssize_t write_calls(self, Py_ssize_t s, Py_ssize_t own, Py_ssize_t at) except -1 nogil
    cdef Py_ssize_t[::1] examples(self, Py_ssize_t n_names)
    cdef Graph by_name(self, Py_ssize_t n_names)
