from equivalence.arrays.interpreter_lock cimport PyThreadState
from equivalence.deadline.deadline cimport Stop


cdef class Account:
    cdef readonly Py_ssize_t taken, most
    cdef Stop stop
    cdef public Py_ssize_t unchecked  # tests set it
    cdef object excess
    cdef Py_ssize_t[::1] integers
    cdef Py_ssize_t n_integers
    cdef int[::1] ints
    cdef Py_ssize_t n_ints
    cdef int depth
    cdef double kept_since
    cdef PyThreadState *released

    cdef int check(self) except -1 nogil
    cdef bint keep_lock(self) noexcept nogil
    cdef void release_if_slow(self) noexcept nogil
    cdef void retake_lock(self, bint kept) noexcept nogil
    cpdef int stop_by(self, object stop) except -1
    cdef Py_ssize_t[::1] new_integers(self, Py_ssize_t size)
    cdef int[::1] new_ints(self, Py_ssize_t size)
    cpdef int claim(self, Py_ssize_t wanted, Py_ssize_t replaced=*) except -1
    cdef object bigger(self, object array, Py_ssize_t size, object used=*)
