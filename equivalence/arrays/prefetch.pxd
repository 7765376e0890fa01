# Asks the processor to fetch the line of memory at an address; nothing else happens, whatever the address is.
cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define EQUIMASK_FETCH(address) __builtin_prefetch((const void *)(address))
    #else
    #define EQUIMASK_FETCH(address) ((void)(address))
    #endif
    """
    void fetch "EQUIMASK_FETCH" (Py_ssize_t address) noexcept nogil
