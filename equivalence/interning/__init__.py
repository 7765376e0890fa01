"""Interning: equal lists of integers get equal numbers (kernels only)."""
