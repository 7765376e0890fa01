from equivalence.trie.nodes cimport Node


cdef class TokenTexts:
    cdef const Node[::1] trie
    cdef readonly object nodes
    cdef const int[::1] height
    cdef const Py_ssize_t[::1] token_starts
    cdef const int[::1] tokens
    cdef const unsigned char[::1] data
    cdef const Py_ssize_t[::1] offsets
    cdef readonly Py_ssize_t longest
