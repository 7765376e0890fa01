from hybrid.classifier.named_ids cimport NamedIds
from hybrid.classifier.rows cimport Rows
from hybrid.classifier.step_cache cimport StepCache


# The fields that a known step and a known mask read come first, so that they share few cache lines.
cdef class CachedSequence:
    cdef readonly Py_ssize_t configuration
    cdef Py_ssize_t first_stop, last_stop
    cdef readonly StepCache steps
    cdef readonly Rows rows
    cdef readonly Py_ssize_t n_steps
    cdef readonly bint ended
    cdef int[::1] history
    cdef readonly Py_ssize_t first_known
    cdef list texts
    cdef readonly object session
    cdef readonly tuple stops
    cdef readonly object compiled, classifier, tokens, mask_seconds
    cdef readonly NamedIds ids

    cdef void make_room(self)
    cdef bint has_room(self, object session) except -1
    cdef int compute_step(self, Py_ssize_t token) except -2
    cdef Py_ssize_t step_of(self, Py_ssize_t configuration, Py_ssize_t token) except -2
    cdef Py_ssize_t step_unlimited(self, object store, Py_ssize_t configuration, Py_ssize_t token) except -2
    cdef bint compute_mask(self) except -1
    cdef bint mask_at(self, Py_ssize_t configuration) except -1
    cpdef int make_row(self, object session, Rows rows, Py_ssize_t configuration) except -1
    cdef int make_row_unlimited(self, object session, Rows rows, Py_ssize_t configuration) except -1


from hybrid.classifier.rows cimport source_in
from hybrid.classifier.step_cache cimport following_in


# Tables are read through the sequence. As arguments of a call they would be counted as references: in free-threaded Python all
# threads with one grammar would then write to one place of memory, which stands beside the numbers that they read.
cdef inline Py_ssize_t mask_of(CachedSequence sequence) noexcept:
    return 0 if sequence.ended else source_in(&sequence.rows.address, &sequence.rows.size, sequence.configuration)


cdef inline void note(CachedSequence sequence, Py_ssize_t read, Py_ssize_t after) noexcept:
    sequence.history[2 * sequence.n_steps] = <int>sequence.configuration
    sequence.history[2 * sequence.n_steps + 1] = <int>read
    sequence.n_steps += 1
    sequence.configuration = after


cdef inline int take(CachedSequence sequence, Py_ssize_t token) noexcept:
    if sequence.ended:
        return 0
    cdef Py_ssize_t i
    if token < 0:
        return -1
    if sequence.first_stop <= token <= sequence.last_stop:
        for i in range(sequence.rows.stops.shape[0]):
            if sequence.rows.stops[i] == token:
                return -1
    cdef Py_ssize_t after = following_in(&sequence.steps.address, &sequence.steps.last, sequence.configuration, token)
    if after <= 0:
        return <int>after
    if 2 * sequence.n_steps >= sequence.history.shape[0]:
        return -1
    note(sequence, token, after)
    return 1
