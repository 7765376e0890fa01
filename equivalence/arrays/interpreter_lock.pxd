# The interpreter's lock, for code that may or may not hold it.
cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        int gilstate_counter  # blocks of `with gil` in which the thread is, plus 1
    PyThreadState *PyEval_SaveThread() noexcept nogil  # release the lock, which must be held
    void PyEval_RestoreThread(PyThreadState *thread) noexcept nogil  # wait for it
    PyThreadState *PyGILState_GetThisThreadState() noexcept nogil  # needs no lock
