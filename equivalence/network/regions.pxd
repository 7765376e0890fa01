from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned

cdef enum:
    TAIL_CALL = 1 << 30  # no symbol: a region calls another one, or leads to its head
    EDGE
    OUTSIDE = 0  # the region of the outside


cdef class Regions:
    cdef const unsigned char[::1] final
    cdef const Py_ssize_t[::1] edge_starts, call_starts
    cdef const Py_ssize_t[:, ::1] edges, calls, counted
    cdef Py_ssize_t n_states, n_frames, outside, start, n_regions
    cdef Account account
    cdef int[::1] order, region_of, head_of
    cdef unsigned char[::1] is_head, is_top
    cdef Interned pairs, links

    cdef Py_ssize_t n_successors(self, Py_ssize_t node) noexcept nogil
    cdef Py_ssize_t successor(self, Py_ssize_t node, Py_ssize_t i) noexcept nogil
    cdef bint is_flow(self, Py_ssize_t node, Py_ssize_t i) noexcept nogil
    cdef int find_order(self, int[::1] path, int[::1] cursor) noexcept nogil
    cdef int divide(self, int[::1] position) except -1 nogil
    cdef int lead_on(self, int[::1] position) except -1 nogil
    cdef int link(self) except -1 nogil
    cdef Py_ssize_t region_of_link(self, Py_ssize_t k) noexcept nogil
    cdef Py_ssize_t symbol_of_link(self, Py_ssize_t k) noexcept nogil
    cdef Py_ssize_t below_link(self, Py_ssize_t k) noexcept nogil
    cdef bint is_end(self, Py_ssize_t state) noexcept nogil
