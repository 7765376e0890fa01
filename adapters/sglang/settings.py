"""The environment variables of this adapter: ``EQUIMASK_SGLANG``, and those that begin with it
(docs/sglang.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings, positive

SETTINGS = Settings("EQUIMASK_SGLANG")

DEFAULT_MEBIBYTES = 512.0


def cache_bytes() -> int:
    """Return the bound of the cache of compiled grammars in bytes: ``EQUIMASK_SGLANG_CACHE_MB``.

    Raises:
        ValueError: it is not a positive number.
    """
    return int(positive(f"{SETTINGS.enabled}_CACHE_MB", DEFAULT_MEBIBYTES, "mebibytes") * 2**20)
