from hybrid.json_schema.formulas cimport Formula


cdef class KeyClass:
    cdef readonly dict truth
    cdef readonly object others
    cdef object _language


cdef class Structure:
    cdef public list accepting
    cdef public list edges
    cdef public bint is_growing
    cdef public list is_live

    cpdef list steps(self, Py_ssize_t state)
    cpdef list live(self, list edges)


cdef class ObjectAutomaton(Structure):
    cdef readonly tuple names
    cdef readonly list classes
    cdef public list position
    cdef public list skipped
    cdef public list extra
    cdef public bint has_unique_keys
    cdef public bint keys_may_run_out


cdef class ArrayAutomaton(Structure):
    cdef readonly list counted
    cdef public object is_unique
    cdef public bint is_conditional
    cdef readonly list repeats
    cdef public bint is_marked


cdef class Nonterminal:
    cdef readonly object number
    cdef readonly bint null
    cdef readonly tuple booleans
    cdef readonly Formula numbers
    cdef readonly Formula strings
    cdef readonly Formula arrays
    cdef readonly Formula objects
    cdef public tuple names
    cdef readonly Formula formula
    cdef public ObjectAutomaton object
    cdef public ArrayAutomaton array
    cdef public bint is_productive
    cdef public bint is_asked
    cdef public object verdict

    cdef bint has_scalar(self) noexcept
