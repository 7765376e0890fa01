from hybrid.json_schema.assertions cimport Assertions
from hybrid.json_schema.formulas cimport Formula
from hybrid.json_schema.locations cimport Location, Locations


cdef class Declared:
    cdef readonly dict names
    cdef readonly dict mentioned
    cdef readonly dict patterns
    cdef readonly bint declares_keys
    cdef readonly bint opens_keys
    cdef readonly Py_ssize_t prefix
    cdef readonly bint opens_items

    cpdef object add(self, Declared other)
    cpdef object add_keywords(
        self, dict schema, object strings, Location location, frozenset known
    )
    cpdef object add_keys(self, str keyword, object value)


cdef class Declarations:
    cdef Assertions _of
    cdef Locations _locations
    cdef frozenset _keywords
    cdef dict _found
    cdef Py_ssize_t _depth

    cpdef Declared of(self, Formula formula)
    cdef Declared _location(self, object number)
    cdef object _walk(self, Location location, set visited, Declared found)
    cdef object _add_all(self, Location location, set visited, Declared found)
