"""The environment variables of this adapter: ``EQUIMASK_SGLANG`` and what begins so (docs/sglang.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings

SETTINGS = Settings("EQUIMASK_SGLANG")

MEBIBYTES = f"{SETTINGS.enabled}_CACHE_MB"
DEFAULT_MEBIBYTES = 512.0


def cache_bytes() -> int:
    """Bound of the compiled grammars that are kept for the next request: ``EQUIMASK_SGLANG_CACHE_MB``.

    Raises:
        ValueError: no positive number.
    """
    return int(SETTINGS.positive(MEBIBYTES, DEFAULT_MEBIBYTES, "mebibytes") * 2**20)
