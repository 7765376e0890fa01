from equivalence.arrays.prefetch cimport fetch
from hybrid.classifier.summaries cimport Summaries
from hybrid.representatives.gather cimport Gather
from libc.string cimport memcpy, memset


cdef class Spare:
    cdef unsigned int[::1] row
    cdef unsigned int[::1] marks
    cdef long long[::1] pairs
    cdef long long[::1] places
    cdef unsigned int[::1] words


cdef Spare spare_of(Py_ssize_t n_words)
cdef int give_back(Spare spare, Py_ssize_t n_words) except -1


cdef class Rows:
    cdef Py_ssize_t n_bytes
    cdef Py_ssize_t[::1] of_configuration
    cdef Py_ssize_t[::1] of_mask
    cdef Gather gather
    cdef const Py_ssize_t[::1] stops
    cdef list rows
    cdef list bases
    cdef Py_ssize_t n_configurations
    cdef readonly Py_ssize_t nbytes

    cdef int make_of(self, Py_ssize_t configuration, Py_ssize_t mask, Summaries known) except -1
    cdef int make_with(self, Spare spare, Py_ssize_t configuration, Py_ssize_t mask, const unsigned int[::1] given, bint is_changed, const unsigned int[::1] both, const unsigned int[::1] added) except -1
    cdef Py_ssize_t patch_at_once(self, const unsigned int[::1] given, bint whole, Spare spare) except -2
    cdef Py_ssize_t mark_stops(self, Py_ssize_t base, bint whole, unsigned int[::1] marks, long long[::1] pairs, Py_ssize_t n) noexcept nogil
    cdef void write_pairs(self, Py_ssize_t base, bint whole, unsigned int[::1] marks, long long[::1] pairs) noexcept nogil
    cdef bint is_full(self, Py_ssize_t base, const unsigned int[::1] marks) noexcept nogil
    cdef bint finish(self, unsigned int[::1] out, bint whole) noexcept nogil
    cdef bint patch(self, const unsigned int[::1] words, long long[::1] pairs) except -1
    cdef void note(self, Py_ssize_t configuration, Py_ssize_t source)


# Inlined where they are used, so that a known mask reads no other module's code.
cdef inline Py_ssize_t source_of(Rows rows, Py_ssize_t configuration) noexcept nogil:
    if 0 <= configuration < rows.of_configuration.shape[0]:
        return rows.of_configuration[configuration]
    return 0


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
