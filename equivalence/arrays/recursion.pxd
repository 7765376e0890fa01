# A call of compiled code that may come back to itself counts as one of Python's: a RecursionError in place of a full
# stack.
cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except -1
    void Py_LeaveRecursiveCall()
