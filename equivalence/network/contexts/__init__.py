"""Below sets and contexts: kernels only, see `equivalence.network.below`."""
