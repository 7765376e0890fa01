from hybrid.json_schema.assertions cimport Assertions
from hybrid.json_schema.automata cimport Nonterminal, Structure
from hybrid.json_schema.declarations cimport Declarations, Declared
from hybrid.json_schema.formulas cimport Formula, Formulas


cdef class Nonterminals:
    cdef readonly list all
    cdef readonly list used
    cdef readonly Assertions assertions
    cdef readonly object numbers
    cdef readonly object bounds
    cdef readonly object strings
    cdef readonly Formulas formulas
    cdef Declarations _declarations
    cdef object _deadline
    cdef bint _is_strict
    cdef object _build_object
    cdef object _build_array
    cdef dict _by_formula
    cdef dict _by_content
    cdef dict _keys
    cdef Py_ssize_t _depth
    cdef Py_ssize_t _n_checks

    cpdef Nonterminal of(self, Formula formula)
    cpdef object check(self)
    cdef Nonterminal _find(self, Formula formula)
    cdef tuple _closed(self, Formula array, Formula object_, Declared declared)
    cpdef object listed(self, Formula formula)
    cdef object _key(self, object value)
    cpdef bint may_hold(self, Formula formula) except -1
    cdef object _verdict(self, Nonterminal nonterminal)
    cdef object _reaches_end(self, Structure automaton)
    cdef object _build(self, Nonterminal nonterminal)
    cpdef list edges(self, list pairs)
