"""The environment variables of this adapter: ``EQUIMASK_VLLM`` and what begins so (docs/vllm.md)."""

from __future__ import annotations

from adapters.engines.settings import Settings

SETTINGS = Settings("EQUIMASK_VLLM")
