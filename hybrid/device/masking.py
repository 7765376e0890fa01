"""Logits masked by what was staged: the meaning, in torch, and the choice of Triton's kernel.

What: each *entry* masks one row of logits. It names the row, the line of the class maps, and where its words
begin among those that were staged. Token t has the bit of number maps[line, t]; where the entry has no line
its words are a whole bitmask, and token t has bit t. Ids behind the vocabulary have none.
When: once a step, behind `hybrid.device.gather.DeviceGather`.
Limits: nothing is checked here.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch

from hybrid.device.maps import NO_LINE

ENTRY = 3
"""Numbers of an entry."""


def mask_in_torch(
    logits: torch.Tensor, vocab_size: int, maps: torch.Tensor, staged: torch.Tensor, entries: torch.Tensor
) -> None:
    """Set to -inf the logits of ids whose bit is 0, or that have none.

    Args:
        logits: (rows, ids), at least `vocab_size` ids, on a device.
        vocab_size: number of ids of the vocabulary.
        maps: int16[lines, `vocab_size` or more], on the device.
        staged: int32, on the device: words of masks, and the same entries.
        entries: int32[n, 3], on the CPU: row, line or `NO_LINE`, place of the first word.
    """
    tokens = torch.arange(vocab_size, device=logits.device, dtype=torch.int32)
    for row, line, place in entries.tolist():
        bits = tokens if line == NO_LINE else maps[line, :vocab_size].to(torch.int32)
        words = staged[place + (bits >> 5).clamp(min=0)]
        allowed = ((words >> (bits & 31)) & 1).bool() & (bits >= 0)
        logits[row, :vocab_size].masked_fill_(~allowed, -torch.inf)
        logits[row, vocab_size:] = -torch.inf


def has_triton() -> bool:
    """Whether Triton is installed; CUDA builds of torch bring it."""
    return find_spec("triton") is not None
