cdef class Location:
    cdef readonly dict schema
    cdef readonly object resolver
    cdef readonly object number
    cdef public bint is_negated
    cdef object _way


cdef class Locations:
    cdef readonly object dialect
    cdef readonly object references
    cdef readonly list all
    cdef readonly list leads
    cdef object _schema
    cdef dict _above
    cdef frozenset _left_out
    cdef dict _by_content
    cdef dict _by_identity
    cdef list _alive
    cdef frozenset _read
    cdef frozenset _kept

    cpdef object at(self, object schema, object resolver, object way, bint is_negated)
    cdef Location _found(self, dict schema, object resolver, object way)
    cdef Location _equal(self, dict schema, object resolver, object way)
    cdef Location _new(self, dict schema, object resolver, object way)


cdef bint are_texts(list values) except -1
