"""The environment variables of this adapter: ``EQUIMASK_VLLM`` and what begins so (docs/vllm.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings

DEFAULT_CHECK_SECONDS = 1.0


class VllmSettings(Settings):
    """Those that every adapter has, and those of this one."""

    @property
    def checking(self) -> str:
        """Name of the variable with the time of one check in the front end."""
        return f"{self.enabled}_CHECK_SECONDS"

    def check_seconds(self) -> float:
        """Time that the front end may spend on one JSON schema, where schemas have their own meaning.

        Raises:
            ValueError: no positive number.
        """
        return self.positive(self.checking, DEFAULT_CHECK_SECONDS, "seconds")


SETTINGS = VllmSettings("EQUIMASK_VLLM")
