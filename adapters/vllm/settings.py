"""The environment variables of this adapter: ``EQUIMASK_VLLM``, and those that begin with it
(docs/vllm.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings

DEFAULT_CHECK_SECONDS = 1.0


class VllmSettings(Settings):
    """The settings that every adapter has, and those of this one."""

    @property
    def checking(self) -> str:
        """Name of the variable for the time of one check in the front end."""
        return f"{self.enabled}_CHECK_SECONDS"

    def check_seconds(self) -> float:
        """Return how many seconds the front end may spend on one JSON schema with
        ``semantics="json-schema"``.

        Raises:
            ValueError: it is not a positive number.
        """
        return self.positive(self.checking, DEFAULT_CHECK_SECONDS, "seconds")


SETTINGS = VllmSettings("EQUIMASK_VLLM")
