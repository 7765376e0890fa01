"""The vocabulary: token id -> bytes; see `equivalence.vocabulary.vocabulary`."""

from equivalence.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
