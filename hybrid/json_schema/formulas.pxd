cdef class Formula:
    cdef readonly str op
    cdef readonly tuple args
    cdef readonly object number
    cdef readonly bint is_constant
    cdef frozenset _atoms  # None: it is an atom, the only one in itself


cdef class Formulas:
    cdef dict _made
    cdef readonly Formula true
    cdef readonly Formula false

    cdef Formula _make(self, str op, tuple args)
    cpdef Formula constant(self, bint value)
    cpdef Formula atom(self, tuple content)
    cpdef Formula negation(self, Formula formula)
    cpdef Formula conjunction(self, parts)
    cpdef Formula disjunction(self, parts)
    cpdef Formula exactly_one(self, parts)
    cdef Formula _join(self, str op, parts, Formula zero, Formula one)
    cdef dict _literals(self, dict found, Formula zero, Formula one)
    cdef bint _propagate(self, str op, dict found, dict literals, Formula one) except -1
    cpdef Formula substitute(self, Formula formula, dict values)
    cdef Formula _substituted(self, Formula formula, dict values, dict done)
    cpdef Formula chosen(self, Formula formula, frozenset true, dict false, dict known, dict done)
    cpdef Formula apply(self, str op, list parts)


cpdef bint decide(Formula formula, object value) except -1
cpdef bint refutes(Formula formula, Formula atom, bint value) except -1
