from equivalence.atomic cimport published
from equivalence.arrays.interning cimport Interned
from equivalence.arrays.prefetch cimport fetch
from hybrid.values.gather cimport Gather
from libc.string cimport memcpy, memset


cdef class Spare:
    cdef unsigned int[::1] marks
    cdef long long[::1] pairs, places
    cdef unsigned int[::1] words


cdef Spare spare_of(Py_ssize_t n_words)
cdef int give_back(Spare spare, Py_ssize_t n_words) except -1


cdef class Rows:
    cdef Py_ssize_t address, size, n_bytes
    cdef Py_ssize_t[::1] of_configuration, of_mask
    cdef Gather gather
    cdef const Py_ssize_t[::1] stops
    cdef readonly list rows
    cdef readonly Py_ssize_t nbytes
    cdef tuple former

    cpdef bint shares(self, Py_ssize_t configuration, Py_ssize_t mask) except -1
    cpdef int make(self, Py_ssize_t configuration, Py_ssize_t number, Py_ssize_t mask, Interned masks, object kept=*, object more=*) except -1
    cdef Py_ssize_t patch(self, const unsigned int[::1] given, bint whole, Spare spare) except -2
    cdef Py_ssize_t mark_stops(self, Py_ssize_t base, bint whole, unsigned int[::1] marks, long long[::1] pairs, Py_ssize_t n) noexcept nogil
    cdef void write_pairs(self, Py_ssize_t base, bint whole, unsigned int[::1] marks, long long[::1] pairs) noexcept nogil
    cdef bint is_full(self, Py_ssize_t base, const unsigned int[::1] marks) noexcept nogil
    cdef bint finish(self, unsigned int[::1] out, bint whole) noexcept nogil
    cdef int use(self, Py_ssize_t[::1] of_configuration) except -1
    cdef int note(self, Py_ssize_t configuration, Py_ssize_t source) except -1


# Inlined into its callers, so that a cached mask runs no code of another module. The size is read before the address, and written
# after it: arrays that replace others are larger, so that a reader never looks beyond their end.
cdef inline Py_ssize_t source_at(Py_ssize_t address, Py_ssize_t size, Py_ssize_t configuration) noexcept nogil:
    return published(<Py_ssize_t*>address + configuration) if 0 <= configuration < size else 0


cdef inline Py_ssize_t source_in(const Py_ssize_t* address, const Py_ssize_t* size, Py_ssize_t configuration) noexcept nogil:
    cdef Py_ssize_t n = published(size)
    return source_at(published(address), n, configuration)


cdef inline Py_ssize_t source_of(Rows rows, Py_ssize_t configuration) noexcept nogil:
    return source_in(&rows.address, &rows.size, configuration)


cdef inline Py_ssize_t address_of_stops(Rows rows) noexcept:
    return <Py_ssize_t>&rows.stops[0] if rows.stops.shape[0] else 0


cdef inline bint is_stop_at(Py_ssize_t address, Py_ssize_t count, Py_ssize_t token) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if (<const Py_ssize_t*>address)[i] == token:
            return True
    return False


cdef inline bint allows(Py_ssize_t source, Py_ssize_t token) noexcept nogil:
    cdef const long long* patch = <const long long*>(source & ~3)
    cdef Py_ssize_t place = token >> 5
    cdef Py_ssize_t k
    if not source & 2:
        return (<const unsigned int*>patch)[place] >> (token & 31) & 1
    for k in range(2, 2 + <Py_ssize_t>patch[1]):
        if patch[k] >> 32 == place:
            return <unsigned int>patch[k] >> (token & 31) & 1
    return word_of(<Py_ssize_t>patch[0], place) >> (token & 31) & 1


cdef inline Py_ssize_t address_of_words(const unsigned int[::1] words) noexcept nogil:
    return <Py_ssize_t>&words[0]


cdef inline Py_ssize_t address_of_bytes(bytes made) noexcept:
    return <Py_ssize_t><const char*>made


cdef inline bytes bytes_of_patch(const long long[::1] pairs):
    return (<const char*>&pairs[0])[:8 * (2 + pairs[1])]


cdef inline unsigned int word_of(Py_ssize_t row, Py_ssize_t word) noexcept nogil:
    return (<const unsigned int*>row)[word] if row else 0


cdef inline void fetch_row(Py_ssize_t source, Py_ssize_t address, Py_ssize_t n_bytes) noexcept nogil:
    cdef Py_ssize_t place = 0
    cdef bint is_patch = source & 2
    fetch(source)
    while place < n_bytes:
        if not is_patch:
            fetch(source + place)
        fetch(address + place)
        place += 4096


cdef inline void copy_row(Py_ssize_t source, Py_ssize_t address, Py_ssize_t n_bytes) noexcept nogil:
    cdef const long long* patch = <const long long*>(source & ~3)
    cdef unsigned int* words = <unsigned int*>address
    cdef Py_ssize_t k
    if not source & 2:
        memcpy(<void*>address, <const void*>(source & ~3), n_bytes)
        return
    if patch[0] == 0:
        memset(<void*>address, 0, n_bytes)
    else:
        memcpy(<void*>address, <const void*><Py_ssize_t>patch[0], n_bytes)
    for k in range(2, 2 + <Py_ssize_t>patch[1]):
        words[patch[k] >> 32] = <unsigned int>patch[k]  # its lower half
