# The numbers of `outcomes.py`, and functions for outcomes and edges, in a form that the compiler inlines.
cdef enum:
    DEAD = 0
    PASS = 1
    NEVER = -1
    ALWAYS = -2
    SHIFT_POPS = 12
    SHIFT_REST = 32
    CAN_DIE = 1
    CAN_PASS = 2
    MOST_REDUCTIONS = 65536  # a parser that reduces so often in a row is assumed to do so forever


cdef inline Py_ssize_t pending(Py_ssize_t pops, Py_ssize_t nonterminal, Py_ssize_t rest) noexcept nogil:
    return (rest * (<Py_ssize_t>1 << SHIFT_REST)) | nonterminal << SHIFT_POPS | pops


cdef inline Py_ssize_t pops_of(Py_ssize_t outcome) noexcept nogil:
    return outcome & 0xFFF


cdef inline Py_ssize_t nonterminal_of(Py_ssize_t outcome) noexcept nogil:
    return outcome >> SHIFT_POPS & 0xFFFFF


cdef inline Py_ssize_t rest_of(Py_ssize_t outcome) noexcept nogil:
    return outcome >> SHIFT_REST


cdef inline Py_ssize_t edge_to(Py_ssize_t item, Py_ssize_t pops) noexcept nogil:
    return (item << SHIFT_POPS | pops) + 2


cdef inline Py_ssize_t item_after(Py_ssize_t edge) noexcept nogil:
    return edge - 2 >> SHIFT_POPS
