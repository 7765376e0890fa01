"""The errors of the project.

One small hierarchy: everything that the project raises on purpose derives from `HybridError`, so one
``except`` clause serves a caller. A message says what was given, what is allowed and the way out.
"""

from __future__ import annotations


class HybridError(Exception):
    """Base class of every error that this project raises on purpose."""


class ArgumentError(HybridError, TypeError, ValueError):
    """An argument of a type or value that is not allowed, such as a bool for a token id, or an object that
    cannot be copied; catch it as `TypeError` or as `ValueError`."""


class VocabularyError(HybridError, ValueError):
    """A vocabulary, or an id of one, is malformed or does not fit."""


class GrammarError(HybridError, RuntimeError):
    """A grammar or schema that XGrammar refuses (it raises `RuntimeError` itself), or cannot survive."""


class UnsupportedGrammar(HybridError):
    """A well-formed grammar whose token classes cannot be kept exact; the message names the construct.

    Strategies ``"auto"`` and ``"representatives"`` answer it by running plain XGrammar.
    """


class BudgetExceeded(HybridError):
    """A computation would outgrow its budget of states; nothing partial is returned."""


class BitmaskError(HybridError, RuntimeError):
    """A bitmask of the wrong dtype, shape, device or row (XGrammar raises `RuntimeError` for these)."""


class BatchError(HybridError, RuntimeError, ValueError):
    """Lists of a batch that differ in length, or rows that do not fit (XGrammar raises `RuntimeError`)."""


class MatcherError(HybridError, RuntimeError):
    """What a matcher cannot do in the state that it is in: give a mask after the end, or take back more steps
    than were made (XGrammar raises `RuntimeError` for these)."""


class StrategyError(HybridError, ValueError):
    """An unknown strategy name, or one that this grammar cannot be compiled with."""


class NotInstalled(HybridError, ImportError):
    """A package that only a part of the project needs is missing; the message has the line that installs it.

    Args:
        what: the part.
        package: by the name that it is imported by.
        extra: of the project, that brings it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} needs {package}, which is not installed: pip install "equimask[{extra}]"')


class ArtifactError(HybridError, ValueError):
    """A compiled grammar that cannot be written to a file, or a file that must not be used as one."""
