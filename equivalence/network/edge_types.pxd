cdef enum:  # the constants of the module, for compiled code
    EMPTY, BYTES, CALL
