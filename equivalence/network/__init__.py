"""The grammar network: see `equivalence.network.build`."""

from equivalence.network.build import SERIALIZATION_VERSION, Network, build_network

__all__ = ["SERIALIZATION_VERSION", "Network", "build_network"]
