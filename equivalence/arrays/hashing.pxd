# One step of a hash of integers, from one below 2**30 to another; nothing on the way is above 2**60. Tables only
# find candidates by it: every key is compared exactly.
cdef inline Py_ssize_t mix(Py_ssize_t h, Py_ssize_t x) noexcept nogil:
    h = (h ^ (x & 0x3FFFFFFF)) * 0x2545F491
    return (h ^ (h >> 29)) & 0x3FFFFFFF
