"""The Triton kernel that masks logits by staged masks; `hybrid.device.masking` specifies it.

What: one program masks `THREADS * ROUNDS` ids of one row. For each id it reads 2 bytes of the class map,
which rows of one grammar share in the cache, and one bit of the few staged words. It writes -inf if the bit
is 0.
When: imported if Triton is installed. Under TRITON_INTERPRET=1 it runs on the CPU, slowly.
Limits: those of `mask_in_torch`. Logits are not read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from hybrid.device.masking import ENTRY

THREADS, ROUNDS = 128, 8
"""A program masks `THREADS` ids at a time, one per thread, in `ROUNDS` rounds. With 8 neighbouring ids per
thread, one load would fetch the numbers of their bits, but each id is stored separately, and one store of a
warp would go to 32 places in memory instead of 4 (float32)."""


# Its value changes from step to step. Triton must not compile a variant for multiples of 16.
@triton.jit(do_not_specialize=["entries_at"])  # type: ignore[untyped-decorator]
def mask_block(  # type: ignore[no-untyped-def]  # Triton has types of its own
    logits, between_rows, between_ids, n_ids, vocab_size, maps, map_size, staged, entries_at,
    entry_size: tl.constexpr, threads: tl.constexpr, rounds: tl.constexpr,
):  # fmt: skip
    """Mask one block of ids of the row of one entry."""
    entry = staged + entries_at + entry_size * tl.program_id(0)
    row = tl.load(entry).to(tl.int64)
    line = tl.load(entry + 1).to(tl.int64)
    words = staged + tl.load(entry + 2)
    n_mapped = tl.where(line >= 0, vocab_size, 0)
    for part in tl.static_range(rounds):
        ids = (tl.program_id(1) * rounds + part) * threads + tl.arange(0, threads)
        is_token = ids < vocab_size
        mapped = tl.load(maps + line * map_size + ids, mask=ids < n_mapped, other=-1)
        bits = tl.where(line >= 0, mapped.to(tl.int32), ids)
        has_bit = is_token & (bits >= 0)
        word = tl.load(words + (bits >> 5), mask=has_bit, other=0)
        is_allowed = ((word >> (bits & 31)) & 1) != 0
        places = logits + row * between_rows + ids.to(tl.int64) * between_ids
        tl.store(places, -float("inf"), mask=(ids < n_ids) & ~(is_allowed & has_bit))


def mask_in_triton(
    logits: torch.Tensor, vocab_size: int, maps: torch.Tensor, staged: torch.Tensor, entries: torch.Tensor
) -> None:
    """Do what `hybrid.device.masking.mask_in_torch` does. The last words of `staged` are the same entries."""
    n_ids = logits.shape[1]
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        mask_block[(len(entries), triton.cdiv(n_ids, THREADS * ROUNDS))](
            logits, logits.stride(0), logits.stride(1), n_ids, vocab_size, maps, maps.stride(0), staged,
            len(staged) - ENTRY * len(entries), entry_size=ENTRY, threads=THREADS, rounds=ROUNDS,
            num_warps=THREADS // 32,
        )  # fmt: skip
