cimport cython

from equivalence.arrays.account cimport Account
from equivalence.arrays.interning cimport Interned
from equivalence.parser.automaton cimport Automaton
from equivalence.parser.byte_tables cimport ByteClass


cdef struct Facts:
    Py_ssize_t loop_0, loop_1, character_loop, characters_known, label, n_ports


@cython.no_gc
cdef class Configurations:
    cdef readonly Automaton automaton
    cdef readonly Interned configurations
    cdef int[:, ::1] steps
    cdef Facts[::1] facts
    cdef const Py_ssize_t[::1] class_of_byte
    cdef ByteClass[::1] byte_classes
    cdef const unsigned long long[:, ::1] first_bits
    cdef readonly Py_ssize_t n_states, n_classes
    cdef readonly Account account

    cdef Py_ssize_t put(self, Py_ssize_t length) except -1 nogil
    cdef void begin_row(self, Py_ssize_t configuration) noexcept nogil
    cdef Py_ssize_t bottom(self, Py_ssize_t state, bint is_final) except -1 nogil
    cdef int grow_configurations(self) except -1


# Where the (state, tail) pairs of a configuration begin in the pool; they end where the next configuration begins.
cdef inline Py_ssize_t stacks_of(Configurations space, Py_ssize_t configuration) noexcept nogil:
    cdef Py_ssize_t begin = space.configurations.starts[configuration]
    return begin + 2 + space.configurations.pool[begin + 1]
