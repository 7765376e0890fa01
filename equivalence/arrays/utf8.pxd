# The decoder of UTF-8, a byte at a time: its next state, -1 if ill-formed.
#
# State 0 ends a character; 1 to 3 continuation bytes missing; 4 after E0, 5 after F0, 6 after F4, 7 after ED.
# Surrogates are ill-formed: no token has one. XGrammar's characters are these and surrogates.
cdef inline Py_ssize_t utf8_step(Py_ssize_t state, Py_ssize_t byte) noexcept nogil:
    if state == 0:
        if byte < 0x80:
            return 0
        if byte < 0xC2 or byte > 0xF4:
            return -1
        if byte < 0xE0:
            return 1
        if byte == 0xE0:
            return 4
        if byte < 0xF0:
            return 2 if byte != 0xED else 7
        if byte == 0xF0:
            return 5
        return 3 if byte < 0xF4 else 6
    if byte < 0x80 or byte > 0xBF:
        return -1
    if state <= 3:
        return state - 1
    if state == 4:
        return 1 if byte >= 0xA0 else -1
    if state == 5:
        return 2 if byte >= 0x90 else -1
    if state == 6:
        return 2 if byte <= 0x8F else -1
    return 1 if byte <= 0x9F else -1
