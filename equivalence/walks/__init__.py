"""Walks: the parser reads the trie of a vocabulary, block by block; walks are kept for the next grammar."""
