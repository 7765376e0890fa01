"""Hashes of integers, for tables that only find candidates: every key is compared exactly.

Compiled modules take the function from `hashing.pxd`, where a call of it costs nothing; this is the same for
modules that run as plain Python.
"""

from __future__ import annotations


def mix(h: int, x: int) -> int:
    """One step of a hash: from one below 2**30 to another; nothing on the way is above 2**60.

    Numbers of numpy are made integers of Python: those of 32 bits would overflow, and have another hash than
    the same number of 64 bits.
    """
    h = (int(h) ^ (int(x) & 0x3FFFFFFF)) * 0x2545F491
    return (h ^ (h >> 29)) & 0x3FFFFFFF
