# One step of a hash of integers, from one below 2**30 to another; nothing on the way is above 2**60. Tables only
# find candidates by it: every key is compared exactly.
cdef inline Py_ssize_t mix(Py_ssize_t h, Py_ssize_t x) noexcept nogil:
    h = (h ^ (x & 0x3FFFFFFF)) * 0x2545F491
    return (h ^ (h >> 29)) & 0x3FFFFFFF


# One step of a hash of 64 bits: a rotation, an exclusive or and a product, as in Firefox's FxHash; the factor is odd,
# 2**64 divided by pi.
cdef inline unsigned long long hashed(unsigned long long h, unsigned long long x) noexcept nogil:
    return (((h << 5) | (h >> 59)) ^ x) * <unsigned long long>0x517CC1B727220A95


# A hash below 2**31 of the numbers ``values[begin:end]``. With `mix`, which has twice as many steps as `hashed`, it was
# 4% of a first mask's instructions.
cdef inline Py_ssize_t list_hash(const Py_ssize_t[::1] values, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long h = end - begin
    cdef Py_ssize_t k
    for k in range(begin, end):
        h = hashed(h, <unsigned long long>values[k])
    return <Py_ssize_t>((h ^ (h >> 32)) & 0x7FFFFFFF)


# A hash below 2**31 of two numbers.
cdef inline Py_ssize_t pair_hash(Py_ssize_t first, Py_ssize_t second) noexcept nogil:
    cdef unsigned long long h = hashed(hashed(0, <unsigned long long>first), <unsigned long long>second)
    return <Py_ssize_t>((h ^ (h >> 32)) & 0x7FFFFFFF)


# Slots of a hash table for some keys: a power of two, so that at least half of the slots stay empty.
cdef inline Py_ssize_t table_size(Py_ssize_t n_keys) noexcept nogil:
    cdef Py_ssize_t size = 16
    while size < 2 * n_keys:
        size *= 2
    return size
