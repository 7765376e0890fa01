from equivalence.arrays.prefetch cimport fetch
from hybrid.representatives.gather cimport Gather


cdef class Rows:
    cdef Py_ssize_t n_bytes
    cdef Py_ssize_t[::1] of_configuration
    cdef Py_ssize_t[::1] of_mask
    cdef Gather gather
    cdef const Py_ssize_t[::1] stops
    cdef list rows
    cdef Py_ssize_t n_configurations
    cdef readonly Py_ssize_t nbytes

    cdef bint finish(self, unsigned int[::1] out, bint whole) noexcept nogil
    cdef void note(self, Py_ssize_t configuration, Py_ssize_t source)


# Inlined where they are used, so that a known mask reads no other module's code.
cdef inline Py_ssize_t source_of(Rows rows, Py_ssize_t configuration) noexcept nogil:
    if 0 <= configuration < rows.of_configuration.shape[0]:
        return rows.of_configuration[configuration]
    return 0


cdef inline void fetch_row(Py_ssize_t source, Py_ssize_t address, Py_ssize_t n_bytes) noexcept nogil:
    cdef Py_ssize_t place = 0
    while place < n_bytes:
        fetch(source + place)
        fetch(address + place)
        place += 4096
