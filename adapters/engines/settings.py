"""Operators' settings in environment variables, read when the engine starts.

What: `Settings` reads whether an engine's adapter is enabled, the budget of one compilation, the folder of
compiled grammars, and whether to report notices and to close texts in time. Adapters add their own settings.
When: in every process of the engine. Child processes inherit the environment.
Limits: a wrong value is an error at the start, and is never replaced by a default.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

DEFAULT_SECONDS = 30.0


@dataclass(frozen=True)
class Settings:
    """The environment variables of one adapter.

    Attributes:
        enabled: name of the variable that enables the adapter; the names of all others begin with it.
    """

    enabled: str

    @property
    def seconds(self) -> str:
        """Name of the variable for the budget of one compilation."""
        return f"{self.enabled}_COMPILE_SECONDS"

    @property
    def folder(self) -> str:
        """Name of the variable for the folder of compiled grammars."""
        return f"{self.enabled}_CACHE_DIR"

    @property
    def meaning(self) -> str:
        """Name of the variable for the semantics of JSON schemas."""
        return f"{self.enabled}_SEMANTICS"

    def semantics(self) -> str:
        """Return the semantics of JSON schemas: "xgrammar" (the default) or "json-schema".

        Raises:
            ValueError: it has another value.
        """
        given = os.environ.get(self.meaning, "xgrammar")
        if given not in ("xgrammar", "json-schema"):
            raise ValueError(
                f"{self.meaning} must be xgrammar (the default) or json-schema, but is {given!r}"
            )
        return given

    @property
    def formats(self) -> str:
        """Name of the variable that says whether `format` is checked."""
        return f"{self.enabled}_FORMATS"

    def assert_formats(self) -> bool:
        """Whether `format` is checked where JSON schemas mean what they say: 1 if it is not set.

        Raises:
            ValueError: neither 0 nor 1.
        """
        return self.switch(self.formats, "to treat `format` as an annotation")

    @property
    def blanks(self) -> str:
        """Name of the variable for the bound on white space."""
        return f"{self.enabled}_MAX_WHITESPACE"

    def max_whitespace_cnt(self) -> int:
        """How many characters of white space may stand between two parts of a JSON text; -1 means any number.

        Raises:
            ValueError: the number is neither -1 nor above 0.
        """
        from hybrid.json_schema import MOST_WHITE_SPACE  # late, as entry points must start quickly

        given = os.environ.get(self.blanks, str(MOST_WHITE_SPACE))
        if not re.fullmatch("-1|0*[1-9][0-9]{0,5}", given):
            raise ValueError(
                f"{self.blanks} must be an integer from 1 to 999999, or -1 for no limit (default: "
                f"{MOST_WHITE_SPACE}), but is {given!r}"
            )
        return int(given)

    @property
    def drafting(self) -> str:
        """Name of the variable that enables drafts of grammars."""
        return f"{self.enabled}_DRAFTS"

    def drafts(self) -> bool:
        """Whether grammars continue the drafts of the engine's speculation; the default is 0.

        Raises:
            ValueError: it is neither 0 nor 1.
        """
        given = os.environ.get(self.drafting, "0")
        if given not in ("0", "1"):
            raise ValueError(f"{self.drafting} must be 0 (the default) or 1, but is {given!r}")
        return given == "1"

    def is_enabled(self) -> bool:
        """Whether the adapter is enabled; the default is 1.

        Raises:
            ValueError: it is neither 0 nor 1.
        """
        return self.switch(self.enabled, "to use plain XGrammar")

    @property
    def metrics(self) -> str:
        """Name of the variable that enables metrics."""
        return f"{self.enabled}_METRICS"

    def has_metrics(self) -> bool:
        """Whether to serve metrics together with the engine's; the default is 1.

        Raises:
            ValueError: it is neither 0 nor 1.
        """
        return self.switch(self.metrics, "to serve no metrics")

    @staticmethod
    def switch(name: str, off: str) -> bool:
        """Return the value of a variable that is 0 or 1; the default is 1.

        Args:
            name: the name of the variable.
            off: what 0 means, for the error message.

        Raises:
            ValueError: it is neither 0 nor 1.
        """
        given = os.environ.get(name, "1")
        if given not in ("0", "1"):
            raise ValueError(f"{name} must be 1 (the default) or 0 ({off}), but is {given!r}")
        return given == "1"

    @property
    def closing(self) -> str:
        """Name of the variable that enables closing texts within the tokens of a request."""
        return f"{self.enabled}_CLOSE"

    def closes(self) -> bool:
        """Whether masks leave room for the end of the text within the tokens of a request; the default is 0.

        Raises:
            ValueError: it is neither 0 nor 1.
        """
        given = os.environ.get(self.closing, "0")
        if given not in ("0", "1"):
            raise ValueError(
                f"{self.closing} must be 0 (the default) or 1 (to close texts in time), but is {given!r}"
            )
        return given == "1"

    @property
    def notices(self) -> str:
        """Name of the variable for the operator's hook for `adapters.engines.notices`."""
        return f"{self.enabled}_NOTICES"

    def hook(self) -> str | None:
        """Return the operator's hook as ``module:function``; None if there is none."""
        return os.environ.get(self.notices) or None

    def compile_seconds(self) -> float:
        """Return the time limit of one compilation in seconds.

        Raises:
            ValueError: it is not a positive number.
        """
        return self.positive(self.seconds, DEFAULT_SECONDS, "seconds")

    def cache_folder(self) -> str | None:
        """Return the folder in which compiled grammars are kept for other processes; None if there is
        none."""
        return os.environ.get(self.folder) or None

    def positive(self, name: str, default: float, unit: str) -> float:
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
