"""The environment variables of this adapter: ``EQUIMASK_SGLANG``, and those that begin with it
(docs/sglang.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings, positive

SETTINGS = Settings("EQUIMASK_SGLANG")

DEFAULT_MEBIBYTES, MOST_MEBIBYTES = 512.0, 2.0**40
"""The default, and a bound beyond the memory of every machine: larger numbers mean that."""


def cache_bytes() -> int:
    """Return the bound of the cache of compiled grammars in bytes: ``EQUIMASK_SGLANG_CACHE_MB``.

    Raises:
        ValueError: it is not a positive number.
    """
    mebibytes = positive(f"{SETTINGS.enabled}_CACHE_MB", DEFAULT_MEBIBYTES, "mebibytes")
    return int(min(mebibytes, MOST_MEBIBYTES) * 2**20)
