"""SGLang's structured outputs, served by this project: a grammar backend called "equimask".

What: `register` is an SGLang plugin (entry point "equimask" of the group ``sglang.srt.plugins``), which every
process of SGLang calls when it starts. From then on ``--grammar-backend equimask`` can be chosen;
`is_registered` tells.
When: install the package next to SGLang; no call is necessary (docs/sglang.md).
Limits: requests, options and results are those of SGLang's backend "xgrammar", the base class of ours.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("sglang") is None:
    raise ImportError(
        'SGLang is not installed: pip install "equimask[sglang]", in an environment of its own', name="sglang"
    )

from adapters.sglang.registration import NAME, CannotRegister, is_registered, register

__all__ = ["NAME", "CannotRegister", "is_registered", "register"]
