from equivalence.parser.space cimport Space

cdef int find_character_loop(Space space, Py_ssize_t configuration) except -1 nogil
cdef bint loops_on_others(Space space, Py_ssize_t configuration) except -1 nogil
