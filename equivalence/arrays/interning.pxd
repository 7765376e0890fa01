from equivalence.arrays.account cimport Account


cdef Py_ssize_t[::1] longer(Py_ssize_t[::1] old, Py_ssize_t size, Py_ssize_t used)


cdef class Interned:
    cdef int[::1] table, table_room
    cdef Py_ssize_t[::1] starts, starts_room, pool
    cdef readonly Py_ssize_t count, used, most
    cdef Account account
    cdef object excess

    cdef Py_ssize_t room(self, Py_ssize_t length) except -1 nogil
    cdef Py_ssize_t intern(self, Py_ssize_t length) noexcept nogil
    cdef Py_ssize_t pair(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil
    cdef Py_ssize_t find(self, Py_ssize_t length) noexcept nogil
    cdef Py_ssize_t slot(self, Py_ssize_t length) noexcept nogil
    cdef int grow(self, Py_ssize_t length) except -1
    cdef int rehash(self, Py_ssize_t size) except -1
    cdef void fill_table(self, Py_ssize_t size) noexcept nogil
    cdef int clear(self, Py_ssize_t capacity) except -1 nogil
