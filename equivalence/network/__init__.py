"""The grammar network: see `equivalence.network.build`."""

from equivalence.network.build import Network, build_network

__all__ = ["Network", "build_network"]
