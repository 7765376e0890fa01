from equivalence.arrays.account cimport Account
from equivalence.arrays.hashing cimport mix
from equivalence.arrays.interning cimport Interned


cdef struct First:
    int mask, pending


cdef struct Summary:
    int pending, symbol, mask, below


cdef class Summaries:
    cdef First[::1] first
    cdef Summary[::1] rows
    cdef readonly Py_ssize_t n_known, n_states, n_words
    cdef readonly bint complete
    cdef readonly Interned pendings, masks, units
    cdef Account account

    cdef Py_ssize_t slot(self, Py_ssize_t pending, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t united(self, Py_ssize_t one, Py_ssize_t other) except -1 nogil
    cdef Py_ssize_t add(self, Py_ssize_t pending, Py_ssize_t symbol, Py_ssize_t mask, Py_ssize_t below) except -1 nogil


cdef Summary[::1] doubled(Summary[::1] old, Account account)


cdef inline Py_ssize_t slot_in(const Summary[::1] rows, Py_ssize_t pending, Py_ssize_t symbol) noexcept nogil:
    cdef Py_ssize_t last = rows.shape[0] - 1
    cdef Py_ssize_t slot = mix(mix(11, pending), symbol) & last
    while rows[slot].pending >= 0:
        if rows[slot].pending == pending and rows[slot].symbol == symbol:
            break
        slot = (slot + 1) & last
    return slot
