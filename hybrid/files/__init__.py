"""Compiled grammars in files: written once, loaded in milliseconds (docs/artifacts.md)."""

from hybrid.files.files import can_be_written, from_bytes, load, save, to_bytes

__all__ = ["can_be_written", "from_bytes", "load", "save", "to_bytes"]
