from hybrid.json_schema.atoms cimport PropertySets
from hybrid.json_schema.formulas cimport Formula, Formulas
from hybrid.json_schema.locations cimport Location, Locations


cdef class Assertions:
    cdef readonly Formulas formulas
    cdef readonly Locations locations
    cdef readonly object strings
    cdef readonly PropertySets sets
    cdef readonly dict arrays
    cdef frozenset _keywords
    cdef dict _expanded
    cdef dict _atoms
    cdef dict _referred
    cdef set _under_way

    cpdef Formula formula(self, Location location, object schema, tuple path)
    cpdef Formula referred(self, Location location, str keyword)
    cpdef Formula constant(self, object value)
    cpdef list in_place(self, Location location, str keyword)
    cpdef list by_type(self, Formula formula)
    cdef Formula _of(self, object location)
    cpdef Formula expand(self, Formula formula, str kind)
    cdef Formula _expand(self, object number, str kind)
    cdef bint only_ref(self, Location location) except -1
    cdef list _clauses(self, Location location, str kind)
    cdef Formula _follow(self, Location location, str keyword, str kind)
    cdef list _operator(self, Location location, str keyword, str kind)
    cdef list _of_kind(self, Location location, str kind)
    cdef bint _is_false(self, list clauses) except -1
    cdef list _if(self, Location location, str kind)
    cdef list _number(self, Location location)
    cdef list _object(self, Location location)
    cdef list _dependent(self, Location location, str keyword)
    cdef list _array(self, Location location)
    cdef list _contains(self, Location location)
    cdef Formula _inner(self, Location location, str kind, object schema, tuple path)
    cdef Formula _type(self, Location location, str kind)
    cdef Formula _branches(self, Location location, str keyword, str kind)
    cdef Formula _enum(self, list values, str kind)
    cdef Formula _object_constant(self, dict value)
    cdef Formula _array_constant(self, list value)
    cdef Formula _properties(self, Location location)
    cdef Formula _items(self, Location location)
