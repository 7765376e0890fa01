"""Drafts: likely next tokens, from those that followed in the same states of a grammar before."""

from hybrid.drafts.model import Draft, DraftModel, links
from hybrid.drafts.verification import verify

__all__ = ["Draft", "DraftModel", "links", "verify"]
