cimport cython

from hybrid.classifier.base_store cimport BaseStore
from equivalence.parser.space cimport Space
from hybrid.classifier.reader cimport Reader
from hybrid.classifier.summaries cimport Summaries
from hybrid.classifier.walker cimport Walker


@cython.no_gc
cdef class Store(BaseStore):
    cdef readonly Space space
    cdef readonly Summaries summaries
    cdef readonly Walker walker
    cdef readonly Reader reader

    cdef Py_ssize_t tail_hash(self, Py_ssize_t tail, Py_ssize_t depth) noexcept
