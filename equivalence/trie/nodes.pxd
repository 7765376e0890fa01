cdef enum:
    ENDS_AT = 8  # `ENDS` and `BELOW_OTHERS` of the module
    OTHERS_AT = 9


# A row of `nodes_of`, as walks read it.
cdef struct Node:
    int child, group, group_end, bits
    Py_ssize_t below_0, below_1
