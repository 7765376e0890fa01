"""Deadlines: they bound the time of a computation, and stop it."""

from equivalence.deadline.deadline import Deadline, Stop

__all__ = ["Deadline", "Stop"]
