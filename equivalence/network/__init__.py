"""The grammar network: see `equivalence.network.build`."""

from equivalence.network.build import Below, Network, below_of, build_network

__all__ = ["Below", "Network", "below_of", "build_network"]
