from equivalence.arrays.interning cimport Interned
from equivalence.network.sorted_set cimport SortedSet
from hybrid.json_schema.languages.residues cimport Residue


# The kinds of terms with their arguments: CHARS (a set of characters), CAT (two terms), STAR (a term),
# REPEAT (a term, least, most), OR and AND (terms), NOT (a term), LOOP (a loop), RESIDUE (a divisor, a state),
# AUTOMATON (a state), VECTOR (terms that are examined side by side). The others have none, and their numbers are
# their kinds.
cdef enum:
    NO_TEXT = 0
    EMPTY_TEXT = 1
    ALL_TEXTS = 2
    CHARS = 3
    CAT = 4
    STAR = 5
    REPEAT = 6
    OR = 7
    AND = 8
    NOT = 9
    LOOP = 10
    RESIDUE = 11
    AUTOMATON = 12
    VECTOR = 13


# The columns of `facts`.
cdef enum:
    NULLABLE = 0
    RUNS = 1
    STATE = 2


# A term as `least` to `most` times a part, and a rest.
cdef struct Front:
    Py_ssize_t part
    Py_ssize_t least
    Py_ssize_t most
    Py_ssize_t rest


cdef class Terms:
    cdef Interned terms
    cdef Py_ssize_t[:, ::1] facts
    cdef Py_ssize_t[::1] stack
    cdef Py_ssize_t n_stack, depth, any_character, n_comparisons
    cdef SortedSet parts
    cdef list loops, sets, divisors
    cdef dict loop_numbers, unfolded, set_numbers, subsets
    cdef Py_ssize_t[:, ::1] edges
    cdef Py_ssize_t[::1] edge_starts, ends

    cdef int enter(self) except -1
    cdef Py_ssize_t number(self, Py_ssize_t length) except -1
    cdef Py_ssize_t make(
        self, Py_ssize_t kind, Py_ssize_t first, Py_ssize_t second=*, Py_ssize_t third=*
    ) except -1
    cdef bint find_nullable(self, Py_ssize_t term) except -1
    cpdef bint nullable(self, Py_ssize_t term) noexcept
    cpdef Py_ssize_t chars(self, tuple ranges) except -1
    cpdef Py_ssize_t nonempty(self) except -1
    cpdef Py_ssize_t cat(self, Py_ssize_t one, Py_ssize_t other) except -1
    cdef Py_ssize_t bounded(self, Py_ssize_t term, Py_ssize_t least, Py_ssize_t most) except -1
    cdef Py_ssize_t join_all(self, Py_ssize_t kind, tuple parts) except -1
    cdef int push(self, Py_ssize_t term) except -1
    cdef Py_ssize_t join(self, Py_ssize_t kind, Py_ssize_t begin) except -1
    cdef Py_ssize_t side_by_side(self, Py_ssize_t begin) except -1
    cdef int unite_repeats(self) except -1
    cdef int drop_included(self, Py_ssize_t kind) except -1
    cdef Front front(self, Py_ssize_t term) noexcept
    cdef bint included(self, Front one, Front other) except -1
    cdef bint includes(self, Py_ssize_t other, Py_ssize_t one) except -1
    cpdef Py_ssize_t complement(self, Py_ssize_t term) except -1
    cpdef Py_ssize_t multiple(self, Residue divisor) except -1
    cdef Py_ssize_t residue(self, Py_ssize_t divisor, Py_ssize_t state) except -1
    cdef Py_ssize_t rest_of(self, Py_ssize_t state) except -1
    cdef Py_ssize_t unfold(self, Py_ssize_t number) except -1


cdef inline Py_ssize_t kind_of(Terms terms, Py_ssize_t term) noexcept:
    return terms.terms.pool[terms.terms.starts[term]]


# An argument of a term, from 1 on.
cdef inline Py_ssize_t argument(Terms terms, Py_ssize_t term, Py_ssize_t i) noexcept:
    return terms.terms.pool[terms.terms.starts[term] + i]


# One more than the number of arguments of a term.
cdef inline Py_ssize_t end_of(Terms terms, Py_ssize_t term) noexcept:
    return terms.terms.starts[term + 1] - terms.terms.starts[term]
