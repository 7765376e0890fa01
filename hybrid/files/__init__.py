"""Compiled grammars in files: written once, loaded in milliseconds (docs/artifacts.md)."""

from hybrid.files.files import from_bytes, load, save, to_bytes

__all__ = ["from_bytes", "load", "save", "to_bytes"]
