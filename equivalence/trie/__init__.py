"""The trie of a vocabulary: its byte strings as a tree, and their suffixes."""

from equivalence.trie.trie import Trie, build_trie

__all__ = ["Trie", "build_trie"]
