"""The gather on the device that has the logits: class masks cross the bus, the vocabulary's masks do not."""

from hybrid.device.gather import DeviceGather

__all__ = ["DeviceGather"]
