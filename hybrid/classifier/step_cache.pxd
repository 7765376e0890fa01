from equivalence.atomic cimport publish_int, published, published_int


cdef struct Step:
    int configuration, token, following, unused


cdef class StepCache:
    cdef Py_ssize_t address, last
    cdef Step[::1] table
    cdef Py_ssize_t count
    cdef tuple former

    cdef int use(self, Step[::1] table) except -1


# Inlined into its callers, so that a cached step runs no code of another module.
cdef inline Py_ssize_t first_slot(Py_ssize_t last, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t h = (configuration * 0x2545F491) ^ (token * 0x61C88647)
    return (h ^ (h >> 17)) & last


cdef inline Py_ssize_t slot_of(const Step[::1] table, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t last = table.shape[0] - 1
    cdef Py_ssize_t slot = first_slot(last, configuration, token)
    while table[slot].configuration >= 0:
        if table[slot].configuration == configuration and table[slot].token == token:
            break
        slot = (slot + 1) & last
    return slot


# A record is seen completely or not at all: its configuration is written last, and read first.
cdef inline void put(Step* record, Py_ssize_t configuration, Py_ssize_t token, Py_ssize_t following) noexcept:
    record.token = <int>token
    record.following = <int>following
    publish_int(&record.configuration, <int>configuration)


# The number of the last slot is read before the address, and written after it: a reader may use only a part of a table that has
# just replaced another one, and then not find a step. It never looks beyond the end of a table.
cdef inline Py_ssize_t following_at(Py_ssize_t address, Py_ssize_t last, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Step* table = <Step*>address
    cdef Py_ssize_t first = first_slot(last, configuration, token)
    cdef Py_ssize_t slot = first
    cdef int found = published_int(&table[slot].configuration)
    while found >= 0:
        if found == configuration and table[slot].token == token:
            return table[slot].following
        slot = (slot + 1) & last
        if slot == first:  # a part of a table may be full
            break
        found = published_int(&table[slot].configuration)
    return -1


cdef inline Py_ssize_t following_in(const Py_ssize_t* address, const Py_ssize_t* last, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t n = published(last)
    return following_at(published(address), n, configuration, token)


cdef inline Py_ssize_t following(StepCache steps, Py_ssize_t configuration, Py_ssize_t token) noexcept nogil:
    return following_in(&steps.address, &steps.last, configuration, token)
