cdef extern from *:
    """
    #ifndef EQUIMASK_SOURCE
    #define EQUIMASK_SOURCE ""
    #endif
    """
    const char *EQUIMASK_SOURCE
