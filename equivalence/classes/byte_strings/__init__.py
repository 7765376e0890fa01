"""What a grammar holds beyond byte-level text, and classes of byte strings that keep all of it exact."""

from equivalence.classes.byte_strings.features import Features, find_features, renumber_tokens

__all__ = ["Features", "find_features", "renumber_tokens"]
