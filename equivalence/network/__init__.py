"""The grammar network: see `equivalence.network.build`."""

from equivalence.network.build import Network, build_network
from equivalence.network.serial import SERIALIZATION_VERSION

__all__ = ["SERIALIZATION_VERSION", "Network", "build_network"]
