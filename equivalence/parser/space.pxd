cimport cython

from equivalence.parser.configurations cimport Configurations
from equivalence.parser.ports cimport Ports
from equivalence.parser.stacks cimport Stacks


cdef enum:
    REJECT  # the configuration without a stack: the last byte cannot be read

cdef enum:
    BEFORE, AFTER  # the current byte


cdef struct Link:
    Py_ssize_t tail, next


cdef struct Occurrence:
    int links, listed
    Py_ssize_t stamp


@cython.no_gc
cdef class Space(Configurations):
    cdef readonly Stacks stacks
    cdef Occurrence[::1] occurrences
    cdef const Py_ssize_t[::1] rank
    cdef Link[::1] links
    cdef Py_ssize_t n_links, stamp
    cdef Py_ssize_t[::1] returning
    cdef Ports ports

    cdef Py_ssize_t step(self, Py_ssize_t configuration, Py_ssize_t byte_class) except -1 nogil
    cdef Py_ssize_t close(self, Py_ssize_t n, Py_ssize_t label, Py_ssize_t n_returning) except -1 nogil
    cdef Py_ssize_t context(self, Py_ssize_t symbol) except -1 nogil
    cdef Py_ssize_t after_unit(self, Py_ssize_t unit, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t new_link(self, Py_ssize_t tail, Py_ssize_t following) except -1 nogil
    cdef Py_ssize_t add(self, Py_ssize_t side, Py_ssize_t state, Py_ssize_t tail, Py_ssize_t n) except -1 nogil
    cdef void sort_in(self, Py_ssize_t state, Py_ssize_t before, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t unite_links(self, Py_ssize_t head) except -1 nogil
    cdef Py_ssize_t tail_of_links(self, Py_ssize_t link) except -1 nogil
    cdef Py_ssize_t call(self, Py_ssize_t state, Py_ssize_t tail, Py_ssize_t byte_class, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t frame_of(self, Py_ssize_t unit) noexcept nogil
    cdef Py_ssize_t go_on(self, Py_ssize_t unit, Py_ssize_t count, Py_ssize_t below, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t push_returning(self, Py_ssize_t tail, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t listed(self, Py_ssize_t n, Py_ssize_t label) except -1 nogil
    cdef int grow_returning(self) except -1


# The configuration after a byte of a class. Inlined into its callers: a known step is one look-up.
cdef inline Py_ssize_t after(Space space, Py_ssize_t configuration, Py_ssize_t byte_class) except -1 nogil:
    cdef Py_ssize_t following = space.steps[configuration, byte_class]
    return following if following >= 0 else space.step(configuration, byte_class)
