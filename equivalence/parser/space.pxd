from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.parser.automaton cimport Automaton
from equivalence.parser.stacks cimport Stacks


cdef struct Link:
    Py_ssize_t tail
    Py_ssize_t next


cdef struct ByState:
    Py_ssize_t now
    Py_ssize_t now_stamp
    Py_ssize_t now_list
    Py_ssize_t next
    Py_ssize_t next_stamp
    Py_ssize_t next_list
    Py_ssize_t rank
    Py_ssize_t unused


cdef struct Facts:
    Py_ssize_t loop_0
    Py_ssize_t loop_1
    Py_ssize_t loop_2
    Py_ssize_t loop_3
    Py_ssize_t character_loop
    Py_ssize_t characters_known
    Py_ssize_t label
    Py_ssize_t n_ports


cdef struct ByteClass:
    Py_ssize_t byte
    Py_ssize_t word_0
    Py_ssize_t word_1
    Py_ssize_t word_2
    Py_ssize_t word_3


cdef class Space:
    cdef readonly Automaton automaton
    cdef readonly Stacks stacks
    cdef readonly Interned configurations
    cdef int[:, ::1] steps
    cdef Facts[::1] facts
    cdef const Py_ssize_t[::1] class_of_byte
    cdef ByteClass[::1] byte_classes
    cdef unsigned char[:, ::1] behaviour
    cdef readonly Py_ssize_t n_states
    cdef readonly Py_ssize_t n_classes
    cdef readonly Account account
    cdef ByState[::1] by_state
    cdef Link[::1] links
    cdef Py_ssize_t n_links
    cdef Py_ssize_t stamp
    cdef Py_ssize_t[::1] returning
    cdef Py_ssize_t[::1] ports
    cdef Py_ssize_t[::1] inside

    cdef Py_ssize_t after(self, Py_ssize_t configuration, Py_ssize_t byte_class) except -1 nogil
    cdef Py_ssize_t step(self, Py_ssize_t configuration, Py_ssize_t byte_class) except -1 nogil
    cdef Py_ssize_t close(self, Py_ssize_t n, Py_ssize_t label, Py_ssize_t n_returning) except -1 nogil
    cdef Py_ssize_t context(self, Py_ssize_t symbol, Py_ssize_t unit) except -1 nogil
    cdef Py_ssize_t after_unit(self, Py_ssize_t unit, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t bottom(self, Py_ssize_t state, bint is_final) except -1 nogil
    cdef Py_ssize_t put(self, Py_ssize_t length) except -1 nogil
    cdef int find_character_loop(self, Py_ssize_t configuration) except -1 nogil
    cdef Py_ssize_t new_link(self, Py_ssize_t tail, Py_ssize_t following) except -1 nogil
    cdef Py_ssize_t add_now(self, Py_ssize_t state, Py_ssize_t tail, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t add_next(self, Py_ssize_t state, Py_ssize_t tail, Py_ssize_t n) except -1 nogil
    cdef void sort_in(self, Py_ssize_t state, Py_ssize_t before, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t unite_links(self, Py_ssize_t head) except -1 nogil
    cdef Py_ssize_t tail_of_links(self, Py_ssize_t link) except -1 nogil
    cdef Py_ssize_t call(self, Py_ssize_t state, Py_ssize_t tail, Py_ssize_t byte_class, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t push_returning(self, Py_ssize_t tail, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t insert_port(self, Py_ssize_t n, Py_ssize_t port) except -1 nogil
    cdef Py_ssize_t listed(self, Py_ssize_t n, Py_ssize_t label, Py_ssize_t n_ports) except -1 nogil
    cdef void note_step(self, Py_ssize_t configuration, Py_ssize_t byte_class, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t following) noexcept nogil
    cdef void note_twins(self, Py_ssize_t state, Py_ssize_t configuration, Py_ssize_t byte_class, Py_ssize_t following) noexcept nogil
    cdef int needed_tails(self, Space other, Py_ssize_t begin, Py_ssize_t end, int[::1] found) except -1 nogil
    cdef Py_ssize_t mark(self, Py_ssize_t tail, int[::1] found, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t bring_tail(self, Space other, Py_ssize_t tail, int[::1] found) except -1 nogil
    cdef int grow_links(self) except -1
    cdef int grow_returning(self) except -1
    cdef int grow_configurations(self) except -1
