"""The Triton kernel that masks logits by what was staged; `hybrid.device.masking` says what it means.

What: one program masks `BLOCK` ids of one row. It reads 2 bytes of the class map for each, which rows of one
grammar share in the cache, and a bit of the words, which are few; and writes where a bit is 0.
When: imported where Triton is installed. Under TRITON_INTERPRET=1 it runs on the CPU, slowly.
Limits: as of `mask_in_torch`. Logits are not read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from hybrid.device.masking import ENTRY

BLOCK = 1024
"""Ids of a program: 8 for each thread, whose bits' numbers are one load of 16 bytes."""

WARPS = 4


@triton.jit  # type: ignore[untyped-decorator]
def mask_block(  # type: ignore[no-untyped-def]  # Triton has types of its own
    logits, between_rows, between_ids, n_ids, vocab_size, maps, map_size, staged, entries_at,
    entry_size: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Mask one block of ids of the row of one entry."""
    entry = staged + entries_at + entry_size * tl.program_id(0)
    row = tl.load(entry).to(tl.int64)
    line = tl.load(entry + 1).to(tl.int64)
    words = staged + tl.load(entry + 2)
    ids = tl.program_id(1) * block + tl.arange(0, block)
    is_token = ids < vocab_size
    bits = ids
    if line >= 0:
        bits = tl.load(maps + line * map_size + ids, mask=is_token, other=-1).to(tl.int32)
    has_bit = is_token & (bits >= 0)
    word = tl.load(words + (bits >> 5), mask=has_bit, other=0)
    is_allowed = ((word >> (bits & 31)) & 1) != 0
    places = logits + row * between_rows + ids.to(tl.int64) * between_ids
    tl.store(places, -float("inf"), mask=(ids < n_ids) & ~(is_allowed & has_bit))


def mask_in_triton(
    logits: torch.Tensor, vocab_size: int, maps: torch.Tensor, staged: torch.Tensor, entries: torch.Tensor
) -> None:
    """As `hybrid.device.masking.mask_in_torch`; the entries are the last of what is staged, too."""
    n_ids = logits.shape[1]
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        mask_block[(len(entries), triton.cdiv(n_ids, BLOCK))](
            logits, logits.stride(0), logits.stride(1), n_ids, vocab_size, maps, maps.stride(0), staged,
            len(staged) - ENTRY * len(entries), entry_size=ENTRY, block=BLOCK, num_warps=WARPS,
        )  # fmt: skip
