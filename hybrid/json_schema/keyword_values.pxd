from hybrid.json_schema.locations cimport Location


cpdef bint is_number(object value) except -1
cpdef object decimal(object value)
cpdef object decimal_of(Location location, str keyword)
cpdef object flag_of(Location location, str keyword)
cpdef object count_of(Location location, str keyword)
cpdef object value_of_kind(dict schema, str keyword, type kind)
cpdef list list_of(Location location, str keyword)
cpdef dict dict_of(Location location, str keyword)
cpdef list names_of(Location location, str keyword)
