"""Operators' settings in environment variables, read when the engine starts.

What: `Settings` reads whether an engine's adapter is enabled, the time limits of compilations, masks and
tokens, and whether to report notices and to complete texts within their token limits. Adapters add their own
settings.
When: in every process of the engine. Child processes inherit the environment.
Limits: a wrong value is an error at the start, and is never replaced by a default.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

DEFAULT_SECONDS = 30.0
DEFAULT_MASK_SECONDS = 2.0


@dataclass(frozen=True)
class Settings:
    """The environment variables of one adapter. Methods that read a number or one of several words raise
    `ValueError` if the variable has another value.

    Attributes:
        enabled: name of the variable that enables the adapter; the names of all others begin with it.
    """

    enabled: str

    @property
    def drafting(self) -> str:
        """Name of the variable that enables drafts of grammars."""
        return f"{self.enabled}_DRAFTS"

    @property
    def notices(self) -> str:
        """Name of the variable for the operator's hook for `adapters.engines.notices`."""
        return f"{self.enabled}_NOTICES"

    def semantics(self) -> str:
        """Return the semantics of JSON schemas: "xgrammar" (the default) or "json-schema"."""
        name = f"{self.enabled}_SEMANTICS"
        given = os.environ.get(name, "xgrammar")
        if given not in ("xgrammar", "json-schema"):
            raise ValueError(f"{name} must be xgrammar (the default) or json-schema, but is {given!r}")
        return given

    def assert_formats(self) -> bool:
        """Whether `format` is checked where JSON schemas mean what they say; the default is 1."""
        return switch(f"{self.enabled}_FORMATS", True, "to treat `format` as an annotation")

    def max_whitespace_cnt(self) -> int:
        """How many characters of white space may stand between two parts of a JSON text; -1 means any
        number."""
        from hybrid.json_schema import MOST_WHITE_SPACE  # late, as entry points must start quickly

        name = f"{self.enabled}_MAX_WHITESPACE"
        given = os.environ.get(name, str(MOST_WHITE_SPACE))
        if not re.fullmatch("-1|0*[1-9][0-9]{0,5}", given):
            raise ValueError(
                f"{name} must be an integer from 1 to 999999, or -1 for no limit (default: "
                f"{MOST_WHITE_SPACE}), but is {given!r}"
            )
        return int(given)

    def drafts(self) -> bool:
        """Whether grammars continue the drafts of the engine's speculation; the default is 0."""
        return switch(self.drafting, False, "to continue drafts")

    def is_enabled(self) -> bool:
        """Whether the adapter is enabled; the default is 1."""
        return switch(self.enabled, True, "to use plain XGrammar")

    def has_metrics(self) -> bool:
        """Whether to serve metrics together with the engine's; the default is 1."""
        return switch(f"{self.enabled}_METRICS", True, "to serve no metrics")

    def keeps_limits(self) -> bool:
        """Whether masks leave room for the end of the text within the tokens of a request; the default is
        0."""
        return switch(f"{self.enabled}_TOKEN_LIMITS", False, "to complete texts within their token limits")

    def hook(self) -> str | None:
        """Return the operator's hook as ``module:function``; None if there is none."""
        return os.environ.get(self.notices) or None

    def compile_seconds(self) -> float:
        """Return the time limit of one compilation in seconds."""
        return positive(f"{self.enabled}_COMPILE_SECONDS", DEFAULT_SECONDS, "seconds")

    def mask_seconds(self) -> float:
        """Return the time limit of one mask, and of reading one token, in seconds."""
        return positive(f"{self.enabled}_MASK_SECONDS", DEFAULT_MASK_SECONDS, "seconds")


def switch(name: str, default: bool, otherwise: str) -> bool:
    """Return the value of a variable that is 0 or 1.

    Args:
        name: the name of the variable.
        default: its value if it is not set.
        otherwise: what the other value means, for the error message.

    Raises:
        ValueError: it is neither 0 nor 1.
    """
    usual = "01"[default]
    given = os.environ.get(name, usual)
    if given not in ("0", "1"):
        raise ValueError(
            f"{name} must be {usual} (the default) or {'10'[default]} ({otherwise}), but is {given!r}"
        )
    return given == "1"


def positive(name: str, default: float, unit: str) -> float:
    """Return a positive number from a variable.

    Raises:
        ValueError: it is not a positive number.
    """
    given = os.environ.get(name, str(default))
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(
            f"{name} must be a positive number of {unit} (default: {default:g}), but is {given!r}"
        )
    return number
