from hybrid.classifier.base_store cimport BaseStore
from equivalence.arrays.pairs cimport Pairs
from hybrid.lark.reader cimport Reader
from hybrid.lark.stacks cimport Stacks


cdef class Store(BaseStore):
    cdef readonly Stacks stacks
    cdef readonly Reader reader
    cdef readonly Pairs configurations
    cdef readonly Pairs decided
    cdef const unsigned char[::1] class_of_byte
    cdef const int[:, ::1] step
    cdef const int[:, ::1] emitted
    cdef const int[::1] sequence
    cdef const Py_ssize_t[::1] sequence_start
    cdef const Py_ssize_t[::1] set_start
    cdef const int[::1] set_kind
    cdef const int[:, ::1] set_of
    cdef const int[::1] stop_set
    cdef const int[::1] alive_set
    cdef const Py_ssize_t[::1] used_start
    cdef const int[::1] used
    cdef unsigned char[::1] allowed

    cdef Py_ssize_t read_sequence(self, Py_ssize_t node, Py_ssize_t sequence) except -1 nogil
    cdef bint takes(self, Py_ssize_t kinds, Py_ssize_t number) noexcept nogil
    cdef Py_ssize_t only_byte(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t decide(self, Py_ssize_t state, Py_ssize_t kinds) except -1 nogil
