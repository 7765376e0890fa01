"""The subset construction over the rules of a network: kernels only, see `_kernels.determinise`."""
