"""Drafts: likely next tokens, from those that followed in the same states of a grammar before."""

from hybrid.drafts.model import DraftModel
from hybrid.drafts.verification import verify

__all__ = ["DraftModel", "verify"]
