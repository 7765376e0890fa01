from equivalence.arrays.account cimport Account


cdef class BlockSets:
    cdef Py_ssize_t[::1] words
    cdef Py_ssize_t n_members  # number of blocks in the current set
    cdef Py_ssize_t hash
    cdef Py_ssize_t[::1] seeds  # one for each block of a byte
    cdef Py_ssize_t[:, ::1] sets
    cdef unsigned char[::1] first_bytes
    cdef Py_ssize_t[::1] hashes
    cdef int[::1] table  # sets by hash, 0: none; twice as many places as sets fit
    cdef Py_ssize_t count, n_words
    cdef Account account

    cdef inline void toggle(self, Py_ssize_t block) noexcept nogil
    cdef inline bint equals(self, Py_ssize_t number) noexcept nogil
    cdef Py_ssize_t number(self, Py_ssize_t first_byte) except -1 nogil
    cdef inline void enter(self, Py_ssize_t number) noexcept nogil
    cdef int grow(self) except -1


cdef class Sweep:
    cdef const unsigned char[::1] first_byte  # the first byte of each group
    cdef const Py_ssize_t[::1] block_starts, range_starts
    cdef const Py_ssize_t[:, ::1] ranges
    cdef int[::1] ends  # where the toggles of each group end
    cdef int[::1] toggles  # blocks, counted from the first one of the group's byte
    cdef Py_ssize_t[::1] bounds  # groups that have toggles
    cdef Py_ssize_t n_bounds
    cdef int[::1] numbers  # the number of the set from each bound on
    cdef BlockSets sets
    cdef Account account

    cdef void sort_toggles(self) noexcept nogil
    cdef void list_bounds(self) noexcept nogil
    cdef int number_bounds(self) except -1 nogil
    cdef int number_groups(self, int[::1] result) except -1
