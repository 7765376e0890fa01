# Time on the system's monotonic clock, in seconds.
cdef extern from *:
    """
    #ifdef _WIN32
    #define WIN32_LEAN_AND_MEAN
    #include <windows.h>
    static CYTHON_INLINE double equimask_seconds(void) {
        LARGE_INTEGER ticks, rate;
        QueryPerformanceFrequency(&rate);
        QueryPerformanceCounter(&ticks);
        return (double)ticks.QuadPart / (double)rate.QuadPart;
    }
    #else
    #include <time.h>
    static CYTHON_INLINE double equimask_seconds(void) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
    }
    #endif
    """
    double monotonic_seconds "equimask_seconds" () noexcept nogil


# Whether Ctrl-C was pressed and Python has not handled it yet; it is forgotten then. Always 0 in other threads than the main
# one. Needs the interpreter's lock.
cdef extern from "Python.h":
    int PyOS_InterruptOccurred()


# The number of this thread, as `threading.get_ident` gives it. Needs no lock.
cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() noexcept nogil
