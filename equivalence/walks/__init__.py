"""Walks: the parser reads the trie of a vocabulary, block by block. Walks are cached for the next grammar."""
