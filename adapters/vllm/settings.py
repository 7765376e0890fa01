"""The environment variables of this adapter: ``EQUIMASK_VLLM`` and what begins so (docs/vllm.md)."""

from __future__ import annotations

import os

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

    @property
    def drafting(self) -> str:
        """Name of the variable that says whether grammars continue drafts."""
        return f"{self.enabled}_DRAFTS"

    def drafts(self) -> bool:
        """Whether grammars continue the drafts of the engine's speculation: 0 if it is not set.

        Raises:
            ValueError: neither 0 nor 1.
        """
        given = os.environ.get(self.drafting, "0")
        if given not in ("0", "1"):
            raise ValueError(f"{self.drafting} is {given!r}, allowed are 0 (the default) and 1")
        return given == "1"


SETTINGS = VllmSettings("EQUIMASK_VLLM")
