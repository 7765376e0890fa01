from hybrid.json_schema.key_tree cimport Branch, KeyTree
from hybrid.json_schema.rows cimport Rows


cdef class TreeWriter:
    cdef Rows _rows
    cdef object _ended
    cdef list _todo

    cpdef Py_ssize_t state_of(self, KeyTree tree) except -1
    cpdef object write(self, KeyTree tree, Py_ssize_t state)
    cpdef object finish(self)
    cdef object _branch(self, Branch branch, Py_ssize_t state)


cdef class PlainWriter:
    cdef Rows _rows
    cdef object _rule_of
    cdef dict _calling
    cdef dict _escaping
    cdef dict _wide
    cdef Py_ssize_t _quote
    cdef Py_ssize_t _slash
    cdef Py_ssize_t _backslash

    cdef int add(self, Py_ssize_t state, Py_ssize_t low, Py_ssize_t high, Py_ssize_t target) except -1
    cdef int _within(self, Py_ssize_t state, Py_ssize_t low, Py_ssize_t high, Py_ssize_t first, Py_ssize_t last, Py_ssize_t target) except -1
    cdef int end(self, Py_ssize_t state) except -1
