"""Whether other processes must make the same decisions about every request as this one.

What: `note` reads this from vLLM's configuration, and `have_to_agree` tells it to the compilers.
When: with the executor "external_launcher" (torchrun), each rank has its own scheduler, and all must make the
same batches, or they wait for each other forever. With all other executors, one process schedules.
Limits: one engine in each process, as is the case for such ranks.
"""

from __future__ import annotations

from typing import Any

EVERY_RANK_SCHEDULES = "external_launcher"

_noted = {"alike": False}


def note(vllm_config: Any) -> None:
    """Read it from the configuration of this process's engine."""
    parallel = getattr(vllm_config, "parallel_config", None)
    _noted["alike"] = getattr(parallel, "distributed_executor_backend", None) == EVERY_RANK_SCHEDULES


def have_to_agree() -> bool:
    """Whether ranks must make the same decisions."""
    return _noted["alike"]
