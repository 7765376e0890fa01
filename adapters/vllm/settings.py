"""What operators say in environment variables, read when the engine starts.

What: whether the adapter serves, the budget of one compilation, and a folder of compiled grammars.
When: in every process of vLLM, which hands its environment down.
Limits: what cannot be read is an error at start, never a default in silence.
"""

from __future__ import annotations

import math
import os

ENABLED = "EQUIMASK_VLLM"
SECONDS = "EQUIMASK_VLLM_COMPILE_SECONDS"
FOLDER = "EQUIMASK_VLLM_CACHE_DIR"

DEFAULT_SECONDS = 30.0


def is_enabled() -> bool:
    """Whether the adapter serves: ``EQUIMASK_VLLM``, 1 if it is not set.

    Raises:
        ValueError: neither 0 nor 1.
    """
    given = os.environ.get(ENABLED, "1")
    if given not in ("0", "1"):
        raise ValueError(
            f"{ENABLED} is {given!r}, allowed are 1 (the default) and 0, which is plain XGrammar"
        )
    return given == "1"


def compile_seconds() -> float:
    """Time of one compilation: ``EQUIMASK_VLLM_COMPILE_SECONDS``.

    Raises:
        ValueError: no positive number.
    """
    given = os.environ.get(SECONDS, str(DEFAULT_SECONDS))
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(
            f"{SECONDS} is {given!r}, allowed is a positive number of seconds; {DEFAULT_SECONDS:g} if not set"
        )
    return seconds


def cache_folder() -> str | None:
    """Folder that keeps compiled grammars for other processes: ``EQUIMASK_VLLM_CACHE_DIR``; None for none."""
    return os.environ.get(FOLDER) or None
