"""Masking logits by staged masks: the specification in torch, and the choice of the Triton kernel.

What: each *entry* masks one row of logits. It has the row, a line of the class maps, and the place of its
first word among the staged words. The bit of token t is number maps[line, t] of these words. If the entry has
no line, its words are a whole bitmask, and the bit of token t is number t. Ids beyond the vocabulary have no
bit.
When: once in each step of `hybrid.device.gather.DeviceGather`.
Limits: arguments are not checked.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch

from hybrid.device.maps import NO_LINE

ENTRY = 3
"""How many numbers an entry has."""


def mask_in_torch(
    logits: torch.Tensor, vocab_size: int, maps: torch.Tensor, staged: torch.Tensor, entries: torch.Tensor
) -> None:
    """Set to -inf the logits of ids whose bit is 0, or that have no bit.

    Args:
        logits: (rows, ids), at least `vocab_size` ids, on a device.
        vocab_size: number of ids of the vocabulary.
        maps: int16[lines, `vocab_size` or more], on the device.
        staged: int32, on the device: words of masks, then the same entries.
        entries: int32[n, 3], on the CPU: row, line or `NO_LINE`, index of the first word.
    """
    tokens = torch.arange(vocab_size, device=logits.device, dtype=torch.int32)
    for row, line, place in entries.tolist():
        bits = tokens if line == NO_LINE else maps[line, :vocab_size].to(torch.int32)
        words = staged[place + (bits >> 5).clamp(min=0)]
        allowed = ((words >> (bits & 31)) & 1).bool() & (bits >= 0)
        logits[row, :vocab_size].masked_fill_(~allowed, -torch.inf)
        logits[row, vocab_size:] = -torch.inf


def has_triton() -> bool:
    """Whether Triton is installed; CUDA builds of torch include it."""
    return find_spec("triton") is not None
