# Reading and writing one number of memory that other threads read without a lock. What a thread wrote before `publish` is
# seen by all that find the number with `published`.
cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define EQUIMASK_PUBLISH(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
    #define EQUIMASK_PUBLISHED(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
    #else
    #define EQUIMASK_PUBLISH(place, value) ((void)(*(place) = (value)))
    #define EQUIMASK_PUBLISHED(place) (*(place))
    #endif
    #ifndef Py_GIL_DISABLED
    #define EQUIMASK_COUNT(place, value) ((void)(*(place) += (value)))
    #elif defined(__GNUC__) || defined(__clang__)
    #define EQUIMASK_COUNT(place, value) ((void)__atomic_fetch_add(place, value, __ATOMIC_RELAXED))
    #else
    #define EQUIMASK_COUNT(place, value) ((void)_InterlockedExchangeAdd64((volatile __int64 *)(place), value))
    #endif
    """
    void publish_int "EQUIMASK_PUBLISH" (int *place, int value) noexcept nogil
    int published_int "EQUIMASK_PUBLISHED" (const int *place) noexcept nogil
    void publish "EQUIMASK_PUBLISH" (volatile Py_ssize_t *place, Py_ssize_t value) noexcept nogil
    Py_ssize_t published "EQUIMASK_PUBLISHED" (volatile Py_ssize_t *place) noexcept nogil
    # Adds to a counter of the process.
    void count "EQUIMASK_COUNT" (Py_ssize_t *place, Py_ssize_t value) noexcept nogil
