"""The trie of a vocabulary: its byte strings as a tree, and the suffixes of these strings."""

from equivalence.trie.trie import Trie, build_trie

__all__ = ["Trie", "build_trie"]
