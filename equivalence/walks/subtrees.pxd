# Subtrees of the trie in which a configuration stays the same: walks take them at once.
from equivalence.parser.byte_tables cimport ByteClass
from equivalence.parser.character_loops cimport BYTE_LOOP, CharacterLoops
from equivalence.parser.configurations cimport Facts
from equivalence.trie.nodes cimport OTHERS_AT, Node


# Whether a configuration with these facts is known to stay the same on everything that occurs below a node.
# Inlined into its callers, as walks ask it for each node that they enter.
cdef inline bint loops_below(const Facts* facts, const Node* node) noexcept nogil:
    cdef Py_ssize_t others = node.bits >> OTHERS_AT
    if others & 1 and facts.character_loop != BYTE_LOOP and not (facts.character_loop and others & 2):
        return False
    return ((node.below_0 & ~facts.loop_0) | (node.below_1 & ~facts.loop_1)) == 0


# Record that a configuration stays the same on a byte or a character, if it does. The last three arguments are the configurations one,
# two and three bytes before. Loops are learned where they occur: trying every byte of every loop took four times as many steps.
cdef inline int learn(CharacterLoops loops, Py_ssize_t byte, Py_ssize_t configuration, Py_ssize_t above, Py_ssize_t second, Py_ssize_t third) except -1 nogil:
    cdef Facts* facts = &loops.space.facts[configuration]
    cdef const ByteClass* read
    if configuration == above:
        read = &loops.space.byte_classes[loops.space.class_of_byte[byte]]
        facts.loop_0 |= read.word_0
        facts.loop_1 |= read.word_1
    if byte >= 0x80 and not facts.characters_known and configuration in (above, second, third):
        loops.find(configuration)
    return 0
