cdef struct Step:
    int configuration
    int token
    int following
    int unused


cdef class Steps:
    cdef Step[::1] table
    cdef Py_ssize_t count
    cdef Py_ssize_t readers
    cdef list former


# Readers without the interpreter's lock see all of a record or none of it: its configuration is written last, and read
# first.
cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define EQUIMASK_PUBLISH(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
    #define EQUIMASK_PUBLISHED(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
    #else
    #define EQUIMASK_PUBLISH(place, value) (*(volatile int *)(place) = (value))
    #define EQUIMASK_PUBLISHED(place) (*(volatile int *)(place))
    #endif
    """
    void publish "EQUIMASK_PUBLISH" (int *place, int value) noexcept nogil
    int published "EQUIMASK_PUBLISHED" (int *place) noexcept nogil


# Inlined into its callers, so that a cached step runs no code of another module.
cdef inline Py_ssize_t first_slot(Py_ssize_t last, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t h = (configuration * 0x2545F491) ^ (token * 0x61C88647)
    return (h ^ (h >> 17)) & last


cdef inline Py_ssize_t slot_of(Steps steps, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t last = steps.table.shape[0] - 1
    cdef Py_ssize_t slot = first_slot(last, configuration, token)
    while steps.table[slot].configuration >= 0:
        if steps.table[slot].configuration == configuration and steps.table[slot].token == token:
            break
        slot = (slot + 1) & last
    return slot


cdef inline Py_ssize_t following_at(Py_ssize_t address, Py_ssize_t last, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Step* table = <Step*>address
    cdef Py_ssize_t slot = first_slot(last, configuration, token)
    cdef int found = published(&table[slot].configuration)
    while found >= 0:
        if found == configuration and table[slot].token == token:
            return table[slot].following
        slot = (slot + 1) & last
        found = published(&table[slot].configuration)
    return -1


cdef inline Py_ssize_t following(Steps steps, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    return following_at(<Py_ssize_t>&steps.table[0], steps.table.shape[0] - 1, configuration, token)


cdef inline void put(Steps steps, Py_ssize_t slot, Py_ssize_t configuration, Py_ssize_t token, Py_ssize_t following) noexcept:
    steps.table[slot].token = <int>token
    steps.table[slot].following = <int>following
    publish(&steps.table[slot].configuration, <int>configuration)


# Between these two calls, which need the interpreter's lock, the table at the address is neither freed nor moved.
cdef inline Py_ssize_t begin_reading_steps(Steps steps) noexcept:
    steps.readers += 1
    return <Py_ssize_t>&steps.table[0]


cdef inline void end_reading_steps(Steps steps) noexcept:
    steps.readers -= 1
    if steps.readers == 0 and steps.former:
        steps.former = []
