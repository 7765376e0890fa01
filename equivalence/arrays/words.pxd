# The words in which a row differs from another one, or from an empty row (`is_empty`; then `base` is not read).


# The first word from `w` on that differs; the number of words if there is none. Eight equal words are skipped in one step,
# because most are equal.
cdef inline Py_ssize_t next_differing(const unsigned int[::1] words, const unsigned int[::1] base, bint is_empty, Py_ssize_t w) noexcept nogil:
    cdef Py_ssize_t n = words.shape[0]
    cdef unsigned int both
    while w < n:
        if w + 8 <= n:
            if is_empty:
                both = words[w] | words[w + 1] | words[w + 2] | words[w + 3]
                both |= words[w + 4] | words[w + 5] | words[w + 6] | words[w + 7]
            else:
                both = (words[w] ^ base[w]) | (words[w + 1] ^ base[w + 1])
                both |= (words[w + 2] ^ base[w + 2]) | (words[w + 3] ^ base[w + 3])
                both |= (words[w + 4] ^ base[w + 4]) | (words[w + 5] ^ base[w + 5])
                both |= (words[w + 6] ^ base[w + 6]) | (words[w + 7] ^ base[w + 7])
            if not both:
                w += 8
                continue
        if words[w] != (0 if is_empty else base[w]):
            break
        w += 1
    return w


# How many words differ. Counting stops after one more than `most`.
cdef inline Py_ssize_t differing(const unsigned int[::1] words, const unsigned int[::1] base, bint is_empty, Py_ssize_t most) noexcept nogil:
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t w = next_differing(words, base, is_empty, 0)
    while w < words.shape[0]:
        n += 1
        if n > most:
            break
        w = next_differing(words, base, is_empty, w + 1)
    return n
