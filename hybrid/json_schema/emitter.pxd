from hybrid.json_schema.automata cimport Nonterminal
from hybrid.json_schema.rows cimport Rows


cdef class Emitter:
    cdef readonly Rows rows
    cdef object layout
    cdef object _nonterminals
    cdef object _false
    cdef dict _rules
    cdef list todo
    cdef bint _counts
    cdef readonly bint is_free
    cdef bint _has_depth
    cdef object _most_blanks
    cdef Py_ssize_t _blanks

    cdef Py_ssize_t value(self, Nonterminal nonterminal, Py_ssize_t depth) except -1
    cdef object _scalar_alone(self, Nonterminal one)
    cdef object scalars(self, Nonterminal one, Py_ssize_t begin, Py_ssize_t end)
    cdef Py_ssize_t _strings(self, Nonterminal one) except -1
    cdef Py_ssize_t _numbers(self, Nonterminal one) except -1
    cdef Py_ssize_t key(self, object language) except -1
    cdef Py_ssize_t blanks(self, Py_ssize_t state) except? -1
    cdef object _blank_edges(self, Py_ssize_t source, Py_ssize_t target)
    cdef Py_ssize_t literal(self, Py_ssize_t state, str text) except? -1
    cdef str line(self, Py_ssize_t depth)
    cdef Py_ssize_t separated(self, Py_ssize_t at, Py_ssize_t depth, str comma) except? -1
    cdef Py_ssize_t colon(self, Py_ssize_t state) except? -1
    cdef Py_ssize_t _repeated(self, Py_ssize_t unit, Py_ssize_t least, object most) except -1
    cdef Py_ssize_t repeated_items(self, Nonterminal value, Py_ssize_t depth, Py_ssize_t least, object most, bint is_marked) except -1
