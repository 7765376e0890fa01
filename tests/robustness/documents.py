"""What long runs have in common: the digest of the masks along a document, and resident memory.

What: `mask_digest` identifies all masks along a document.
When: in the tests of this folder.
Limits: resident memory is known on Linux only.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from bench.memory import STATUS, status_bytes
from hybrid import GrammarMatcher
from hybrid.testing.mask_comparison import flags_of


def mask_digest(compiled: Any, ids: Sequence[int]) -> str:
    """A digest of the masks before each token of a document, up to the first refused one."""
    matcher, digest = GrammarMatcher(compiled), blake2b(digest_size=16)
    for token in ids:
        digest.update(flags_of(matcher))
        if not matcher.accept_token(token):
            break
    return digest.hexdigest()


def resident_bytes() -> int:
    """Resident memory of this process; 0 if unknown."""
    return status_bytes("VmRSS") if STATUS.exists() else 0
