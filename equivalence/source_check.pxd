cdef extern from *:
    """
    #ifndef EQUIMASK_SOURCE
    #define EQUIMASK_SOURCE ""
    #endif
    """
    const char *EQUIMASK_SOURCE


# Refuses the extension that calls this if it was made from other files than those beside it.
cdef inline int check_source(str name) except -1:
    from equivalence.source_check import check
    check(name, EQUIMASK_SOURCE)
    return 0
