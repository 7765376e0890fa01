"""The gather on the device that has the logits, so that only class masks are sent to it, not masks of the
whole vocabulary.
"""

from hybrid.device.gather import DeviceGather

__all__ = ["DeviceGather"]
