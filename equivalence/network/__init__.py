"""The grammar network: see `equivalence.network.build`."""

from equivalence.network.build import Below, Network, build_network

__all__ = ["Below", "Network", "build_network"]
