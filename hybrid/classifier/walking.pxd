from equivalence.arrays.interning cimport Interned
from equivalence.parser.space cimport Space
from hybrid.classifier.contents cimport Contents
from hybrid.classifier.counters cimport Counters
from hybrid.classifier.summaries cimport Summaries
from hybrid.classifier.summarising cimport Summariser


cdef struct TrieNode:
    int child
    int group
    int group_end
    int bits
    int below_0
    int below_1
    int below_2
    int below_3


cdef struct Step:
    Py_ssize_t configuration
    Py_ssize_t child
    Py_ssize_t end
    Py_ssize_t has_ports


cdef class Walker(Summariser):
    cdef const TrieNode[::1] trie
    cdef const int[::1] height
    cdef Counters counters
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens
    cdef Step[::1] path
    cdef Py_ssize_t[::1] ranges
    cdef Py_ssize_t n_ranges
    cdef readonly Interned pieces
    cdef Py_ssize_t follow_0
    cdef Py_ssize_t follow_1
    cdef Py_ssize_t follow_2
    cdef Py_ssize_t follow_3
    cdef bint follow_others
    cdef readonly Py_ssize_t n_entered
    cdef Py_ssize_t most_entered
    cdef object kept
    cdef object fixed
    cdef bint filters
    cdef Py_ssize_t few_nodes
    cdef Contents contents
    cdef readonly list reads
    cdef dict number_of_read
    cdef object key
    cdef Py_ssize_t mask

    cdef Py_ssize_t read_from(self, Py_ssize_t pending, Py_ssize_t symbol, Py_ssize_t own, Py_ssize_t begin) except -1 nogil
    cdef Py_ssize_t walk_from(self, Py_ssize_t pending, Py_ssize_t begin) except -1 nogil
    cdef bint is_wide(self, Py_ssize_t pending, Py_ssize_t symbol) noexcept nogil
    cdef Py_ssize_t that_may_follow(self, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t read_long(self, Py_ssize_t pending, Py_ssize_t symbol, Py_ssize_t own, Py_ssize_t begin, bint is_new) except -1 nogil
    cdef Py_ssize_t recall(self, Py_ssize_t pending, Py_ssize_t symbol) except -2
    cdef int keep(self, Py_ssize_t n) except -1
    cdef int take(self, object read) except -1
    cdef Py_ssize_t walk(self, Py_ssize_t node, Py_ssize_t configuration, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t pass_over(self, Py_ssize_t i, Py_ssize_t last, Py_ssize_t above) except -1 nogil
    cdef bint enter(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef int forget_counts(self, Py_ssize_t i, Py_ssize_t d) except -1 nogil
    cdef int learn(self, Py_ssize_t byte, Py_ssize_t d) except -1 nogil
    cdef bint stays_below(self, Py_ssize_t i, Py_ssize_t configuration) noexcept nogil
    cdef int allow(self, Py_ssize_t first, Py_ssize_t end) except -1 nogil
    cdef int grow_ranges(self) except -1
    cdef Py_ssize_t mask_of_ranges(self) except -1 nogil
    cdef int set_follow(self, Py_ssize_t own) except -1 nogil
    cdef void follow_all(self) noexcept nogil
    cdef bint may_follow(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t note_node(self, Py_ssize_t node, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t in_order(self, Py_ssize_t n) noexcept nogil
    cdef int grow_pairs(self) except -1
