from hybrid.json_schema.formulas cimport Formula, Formulas


cdef class PropertySet:
    cdef readonly dict names
    cdef readonly tuple patterns
    cdef readonly Formula rest
    cdef dict _after


cdef class PropertySets:
    cdef Formulas _formulas
    cdef dict _made
    cdef Py_ssize_t n_left

    cpdef Formula atom(self, dict names, tuple patterns, Formula rest)
    cpdef Formula after(self, Formula atom, str name)
