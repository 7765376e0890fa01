from equivalence.parser.space cimport Space

cdef enum:
    BYTE_LOOP = 2  # a loop of characters in which each byte is one


cdef int find_character_loop(Space space, Py_ssize_t configuration) except -1 nogil
cdef bint loops_on_others(Space space, Py_ssize_t configuration) except -1 nogil
