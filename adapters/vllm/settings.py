"""The environment variables of this adapter: ``EQUIMASK_VLLM``, and those that begin with it
(docs/vllm.md); and what
compilers must know of the engine's configuration."""

from __future__ import annotations

from typing import Any

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


_ranks = {"agree": False}


def note_ranks(vllm_config: Any) -> None:
    """Note whether other processes must make the same decisions about every request as this one.

    With the executor "external_launcher" (torchrun), each rank has its own scheduler, and all must make the
    same batches, or they wait for each other forever. With all other executors, one process schedules. There
    is one engine in each process of such ranks.
    """
    parallel = getattr(vllm_config, "parallel_config", None)
    _ranks["agree"] = getattr(parallel, "distributed_executor_backend", None) == "external_launcher"


def ranks_have_to_agree() -> bool:
    """Whether ranks must make the same decisions."""
    return _ranks["agree"]
