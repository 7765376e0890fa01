"""Whether other processes have to decide about every request as this one does.

What: `note` reads it of vLLM's configuration, `have_to_agree` tells the compilers.
When: with the executor "external_launcher" (torchrun) each rank has a scheduler of its own, and all must come
to the same batches, or they wait for each other for ever. With all other executors one process schedules.
Limits: one engine a process, as such ranks are.
"""

from __future__ import annotations

from typing import Any

EVERY_RANK_SCHEDULES = "external_launcher"

_noted = {"alike": False}


def note(vllm_config: Any) -> None:
    """Take it from the configuration of the engine of this process."""
    parallel = getattr(vllm_config, "parallel_config", None)
    _noted["alike"] = getattr(parallel, "distributed_executor_backend", None) == EVERY_RANK_SCHEDULES


def have_to_agree() -> bool:
    """Whether they have to."""
    return _noted["alike"]
