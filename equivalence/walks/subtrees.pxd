# Subtrees of the trie in which a configuration stays the same: walks take them at once.
from equivalence.parser.byte_tables cimport ByteClass
from equivalence.parser.character_loops cimport BYTE_LOOP
from equivalence.parser.configurations cimport Facts
from equivalence.trie.nodes cimport OTHERS_AT, Node


# Whether a configuration with these facts is known to stay the same on everything that occurs below a node.
# Inlined into its callers, as walks ask it for each node that they enter.
cdef inline bint loops_below(const Facts* facts, const Node* node) noexcept nogil:
    cdef Py_ssize_t others = node.bits >> OTHERS_AT
    if others & 1 and facts.character_loop != BYTE_LOOP and not (facts.character_loop and others & 2):
        return False
    return ((node.below_0 & ~facts.loop_0) | (node.below_1 & ~facts.loop_1)) == 0


# Record that the configuration with these facts stays the same on the bytes of a class.
cdef inline void note_loop(Facts* facts, const ByteClass* read) noexcept nogil:
    facts.loop_0 |= read.word_0
    facts.loop_1 |= read.word_1
