"""The errors of the project.

All errors that the project raises on purpose derive from `HybridError`, so callers can catch them with one
``except`` clause. A message says what was given, what is allowed, and what to do.
"""

from __future__ import annotations

from typing import Any


class HybridError(RuntimeError):
    """Base class of every error that this project raises on purpose. Errors can be copied and pickled.

    They are `RuntimeError`s, which XGrammar raises.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would call the class with the message, but some classes make it of other arguments
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[HybridError], args: tuple[Any, ...]) -> HybridError:
    """An error with these values, made without its ``__init__``."""
    return kind.__new__(kind, *args)


class ArgumentError(HybridError, TypeError, ValueError):
    """An argument has a type or value that is not allowed, such as a bool for a token id; or an object cannot
    be copied. It is both a `TypeError` and a `ValueError`."""


class VocabularyError(HybridError, TypeError, ValueError):
    """A vocabulary is malformed, does not fit the grammar, or lacks an id. For stop tokens of a wrong type,
    XGrammar raises `TypeError`."""


class GrammarError(HybridError):
    """A grammar or schema is refused, by XGrammar, by Lark, by ``strict=True``, or because XGrammar would
    crash on it or a schema could not mean what it says."""


class UnsupportedGrammar(HybridError):
    """A valid grammar uses a construct for which masks or completions cannot be computed exactly.

    The message names the construct. For masks, strategy ``"auto"`` runs such a grammar in plain XGrammar.
    """


class BudgetExceeded(HybridError):
    """A computation would exceed its budget of time, states or memory. It returns nothing."""


class BitmaskError(HybridError, TypeError):
    """A bitmask has the wrong dtype, shape, device or row. XGrammar raises `RuntimeError` or `TypeError` for
    these."""


class BatchError(HybridError, ValueError):
    """The lists of a batch differ in length, or rows do not fit."""


class MatcherError(HybridError):
    """A matcher cannot do this in its present state: fill a mask after the end, or take back more steps than
    it has made."""


class StrategyError(HybridError, ValueError):
    """A strategy is unknown, or cannot run this grammar."""


class NotInstalled(HybridError, ImportError):
    """A package is missing that only a part of the project needs. The message has the command to install it.

    Args:
        what: the part of the project.
        package: the name by which the package is imported.
        extra: the extra of this project that installs it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} needs {package}, which is not installed: pip install "equimask[{extra}]"')


class ArtifactError(HybridError, ValueError):
    """A compiled grammar cannot be written to a file, or a file cannot be used as a compiled grammar."""
