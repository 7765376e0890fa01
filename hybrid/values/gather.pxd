cimport cython


@cython.no_gc
cdef class Gather:
    cdef const Py_ssize_t[::1] starts
    cdef const Py_ssize_t[:, ::1] pieces
    cdef const int[::1] tokens
    cdef int[::1] row_of_class
    cdef unsigned int[:, ::1] rows
    cdef readonly Py_ssize_t n_classes, vocab_size, n_words, memory_size_bytes
    cdef readonly tuple tables

    cdef Py_ssize_t number_rows(self, Py_ssize_t least) noexcept
    cdef void fill_rows(self) noexcept nogil
    cdef void set_tokens(self, Py_ssize_t number, unsigned int[::1] out) noexcept nogil
    cdef int fill(self, const unsigned int[::1] class_mask, unsigned int[::1] out) except -1 nogil
    cdef Py_ssize_t row_of(self, Py_ssize_t number) except -1 nogil
    cdef Py_ssize_t mark(self, Py_ssize_t number, unsigned int[::1] marks, long long[::1] places, Py_ssize_t n) noexcept nogil


cdef Py_ssize_t mark_tokens(const int[::1] tokens, Py_ssize_t begin, Py_ssize_t end, unsigned int[::1] marks, long long[::1] places, Py_ssize_t n) noexcept nogil


cdef inline void set_bits(const int[::1] tokens, Py_ssize_t begin, Py_ssize_t end, unsigned int[::1] out) noexcept nogil:
    cdef Py_ssize_t t
    for t in range(begin, end):
        out[tokens[t] >> 5] |= <unsigned int>1 << (tokens[t] & 31)


# Four words are read before any is written, so that the compiler can combine them.
cdef inline void unite_row(Py_ssize_t address, unsigned int[::1] out) noexcept nogil:
    cdef const unsigned int* row = <const unsigned int*>address
    cdef Py_ssize_t w = 0, n = out.shape[0]
    cdef unsigned int first, second, third, fourth
    while w + 4 <= n:
        first = out[w] | row[w]
        second = out[w + 1] | row[w + 1]
        third = out[w + 2] | row[w + 2]
        fourth = out[w + 3] | row[w + 3]
        out[w] = first
        out[w + 1] = second
        out[w + 2] = third
        out[w + 3] = fourth
        w += 4
    while w < n:
        out[w] |= row[w]
        w += 1
