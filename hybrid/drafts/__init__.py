"""Drafts: tokens that are likely to come next, as what followed in the same states of a grammar before."""

from hybrid.drafts.model import Draft, DraftModel, links
from hybrid.drafts.verifying import verify

__all__ = ["Draft", "DraftModel", "links", "verify"]
