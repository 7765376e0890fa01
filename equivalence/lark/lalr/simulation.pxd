from equivalence.arrays.account cimport Account


cdef class Simulation:
    cdef const int[:, ::1] action, after
    cdef const int[::1] rule_length, rule_origin
    cdef int[::1] users
    cdef Py_ssize_t[::1] user_start
    cdef int[:, ::1] place
    cdef int[::1] first
    cdef Py_ssize_t[::1] row, outcome
    cdef int[::1] local
    cdef readonly Py_ssize_t count, cells
    cdef Py_ssize_t most
    cdef Account account

    cdef Py_ssize_t begin(self, Py_ssize_t terminal, Py_ssize_t rest) except -1 nogil
    cdef void keep(self) noexcept nogil
    cdef Py_ssize_t run_first(self, Py_ssize_t state, Py_ssize_t terminal, Py_ssize_t rest) except -1 nogil
    cdef Py_ssize_t run(self, Py_ssize_t depth, Py_ssize_t rest) except -1 nogil
    cdef Py_ssize_t refuse_loop(self) except -1 nogil
    cdef Py_ssize_t refuse_table(self) except -1 nogil
    cdef int grow_sequences(self) except -1
    cdef int grow_cells(self, Py_ssize_t wanted) except -1
