from hybrid.json_schema.locations cimport Location


cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except -1
    void Py_LeaveRecursiveCall()


cdef class Declared:
    cdef readonly dict names
    cdef readonly dict mentioned
    cdef readonly dict patterns
    cdef readonly bint declares_keys
    cdef readonly bint opens_keys
    cdef readonly Py_ssize_t prefix
    cdef readonly bint opens_items

    cpdef object add(self, Declared other)
    cpdef object add_keywords(self, dict schema, object strings, Location location)
    cpdef object add_keys(self, str keyword, object value)
