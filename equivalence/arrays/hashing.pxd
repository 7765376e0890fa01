# One step of a hash of integers, from one below 2**30 to another; nothing on the way is above 2**60. Tables only
# find candidates by it: every key is compared exactly.
cdef inline Py_ssize_t mix(Py_ssize_t h, Py_ssize_t x) noexcept nogil:
    h = (h ^ (x & 0x3FFFFFFF)) * 0x2545F491
    return (h ^ (h >> 29)) & 0x3FFFFFFF


# A hash below 2**31 of the numbers ``values[begin:end]``: for each of them a rotation, an exclusive or and a product,
# as in Firefox's FxHash; the factor is odd, 2**64 divided by pi. With `mix`, which has twice as many steps, it was 4%
# of a first mask's instructions.
cdef inline Py_ssize_t list_hash(const Py_ssize_t[::1] values, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long h = end - begin
    cdef Py_ssize_t k
    for k in range(begin, end):
        h = ((h << 5) | (h >> 59)) ^ <unsigned long long>values[k]
        h *= <unsigned long long>0x517CC1B727220A95
    return <Py_ssize_t>((h ^ (h >> 32)) & 0x7FFFFFFF)
