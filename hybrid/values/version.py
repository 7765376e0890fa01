"""The version of the package, which is part of the keys of files."""

__version__ = "0.1.0"
