# Reading and writing one number of memory that other threads read without a lock. What a thread wrote before `publish` is
# seen by all that find the number with `published`. With MSVC, /volatile:ms says this of volatile memory (setup.py).
cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define EQUIMASK_STORE(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
    #define EQUIMASK_LOAD(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
    #define EQUIMASK_ADD(place, value) ((void)__atomic_fetch_add(place, value, __ATOMIC_RELAXED))
    #else
    #define EQUIMASK_STORE(place, value) (*(place) = (value))
    #define EQUIMASK_LOAD(place) (*(place))
    #define EQUIMASK_ADD(place, value) ((void)_InterlockedExchangeAdd64((volatile __int64 *)(place), value))
    #endif

    static CYTHON_INLINE void equimask_publish_int(volatile int *place, int value) { EQUIMASK_STORE(place, value); }
    static CYTHON_INLINE int equimask_published_int(const volatile int *place) { return EQUIMASK_LOAD(place); }
    static CYTHON_INLINE void equimask_publish(volatile Py_ssize_t *place, Py_ssize_t value) { EQUIMASK_STORE(place, value); }
    static CYTHON_INLINE Py_ssize_t equimask_published(const volatile Py_ssize_t *place) { return EQUIMASK_LOAD(place); }
    static CYTHON_INLINE void equimask_count(volatile Py_ssize_t *place, Py_ssize_t value) {
    #ifdef Py_GIL_DISABLED
        EQUIMASK_ADD(place, value);
    #else
        *place += value;
    #endif
    }
    """
    void publish_int "equimask_publish_int" (volatile int *place, int value) noexcept nogil
    int published_int "equimask_published_int" (const volatile int *place) noexcept nogil
    void publish "equimask_publish" (volatile Py_ssize_t *place, Py_ssize_t value) noexcept nogil
    Py_ssize_t published "equimask_published" (const volatile Py_ssize_t *place) noexcept nogil
    # Adds to a counter of the process.
    void count "equimask_count" (volatile Py_ssize_t *place, Py_ssize_t value) noexcept nogil
