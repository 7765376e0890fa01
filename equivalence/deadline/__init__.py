"""Deadlines: when a computation has to be over, and what stops it."""

from equivalence.deadline.deadline import Deadline, Stop

__all__ = ["Deadline", "Stop"]
