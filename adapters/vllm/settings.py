"""The environment variables of this adapter: ``EQUIMASK_VLLM``, and those that begin with it
(docs/vllm.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings, positive

SETTINGS = Settings("EQUIMASK_VLLM")

DEFAULT_CHECK_SECONDS = 1.0


def check_seconds() -> float:
    """Return how many seconds the front end may spend on one JSON schema with ``semantics="json-schema"``:
    ``EQUIMASK_VLLM_CHECK_SECONDS``.

    Raises:
        ValueError: it is not a positive number.
    """
    return positive(f"{SETTINGS.enabled}_CHECK_SECONDS", DEFAULT_CHECK_SECONDS, "seconds")
