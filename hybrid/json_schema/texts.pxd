from hybrid.json_schema.keys cimport Branch, KeyTree
from hybrid.json_schema.rows cimport Rows


cdef class TreeWriter:
    cdef Rows _rows
    cdef object _ended
    cdef dict _nodes
    cdef dict _behind_first
    cdef list _todo

    cpdef Py_ssize_t state_of(self, KeyTree tree) except -1
    cpdef object write(self, KeyTree tree, Py_ssize_t state)
    cpdef object finish(self)
    cdef object _branch(self, Branch branch, Py_ssize_t state)
    cdef object _spell(self, Py_ssize_t state, str label, Py_ssize_t target)
    cdef object _escaped(self, Py_ssize_t state, str letter, Py_ssize_t target)
