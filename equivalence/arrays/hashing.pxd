# What `hashing.py` says, in the form that compilers put in place of the call: a hash is some of these.
cdef inline Py_ssize_t mix(Py_ssize_t h, Py_ssize_t x) noexcept nogil:
    h = (h ^ (x & 0x3FFFFFFF)) * 0x2545F491
    return (h ^ (h >> 29)) & 0x3FFFFFFF
