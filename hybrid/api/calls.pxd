from hybrid.classifier.cached_sequence cimport CachedSequence


cdef class CheckedBitmask:
    cdef Py_ssize_t address, row_stride, count, impl, storage
    cdef Py_ssize_t[14] geometry
    cdef bint shows_changes
    cdef object rows, shape

    cdef int record(self, object bitmask, object rows) except -1
    cdef int copy_from(self, CheckedBitmask other) except -1
    cdef bint is_same(self, object bitmask) except -1


cdef class Calls(CheckedBitmask):
    cdef public CachedSequence sequence
    cdef object bitmask
    cdef Py_ssize_t filled
    cdef object follower
    cdef public object _compiled
    cdef public tuple _stops
    cdef public Py_ssize_t _size, _width


cdef extern from *:
    """
    /* The value of an int that is not negative and of one digit, as all ids and rows are; else -1. */
    static CYTHON_INLINE Py_ssize_t equimask_number(PyObject *value) {
    #if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_LIMITED_API)
        return PyUnstable_Long_IsCompact((PyLongObject *)value) ? PyUnstable_Long_CompactValue((PyLongObject *)value) : -1;
    #else
        Py_ssize_t size = Py_SIZE(value);
        return size == 1 ? (Py_ssize_t)((PyLongObject *)value)->ob_digit[0] : size == 0 ? 0 : -1;
    #endif
    }
    """
    Py_ssize_t number_of "equimask_number" (object value) noexcept
