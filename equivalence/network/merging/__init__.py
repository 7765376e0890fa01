"""Merging of states that read the same way: kernels only, see `_kernels.minimise`."""
