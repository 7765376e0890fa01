"""What operators say in environment variables, read when the engine starts.

What: `Settings` reads whether the adapter of an engine serves, the budget of one compilation, a folder of
compiled grammars, what is told and closed in time, and numbers of its own.
When: in every process of the engine, which hands its environment down.
Limits: what cannot be read is an error at start, never a default in silence.
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
        enabled: name of the variable that says whether the adapter serves; all others begin with it.
    """

    enabled: str

    @property
    def seconds(self) -> str:
        """Name of the variable with the budget of one compilation."""
        return f"{self.enabled}_COMPILE_SECONDS"

    @property
    def folder(self) -> str:
        """Name of the variable with the folder of compiled grammars."""
        return f"{self.enabled}_CACHE_DIR"

    @property
    def meaning(self) -> str:
        """Name of the variable that says what JSON schemas mean."""
        return f"{self.enabled}_SEMANTICS"

    def semantics(self) -> str:
        """What JSON schemas mean: "xgrammar" if it is not set, or "json-schema".

        Raises:
            ValueError: something else.
        """
        given = os.environ.get(self.meaning, "xgrammar")
        if given not in ("xgrammar", "json-schema"):
            raise ValueError(
                f"{self.meaning} is {given!r}, allowed are xgrammar (the default) and json-schema"
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
        return self.switch(self.formats, "which reads `format` as an annotation")

    @property
    def blanks(self) -> str:
        """Name of the variable with the bound on runs of white space."""
        return f"{self.enabled}_MAX_WHITESPACE"

    def max_whitespace_cnt(self) -> int:
        """Characters that a run of white space between the parts of a JSON text may have; -1: no bound.

        Raises:
            ValueError: another number than -1 and those above 0.
        """
        from hybrid.json_schema import MOST_WHITE_SPACE  # an entry point imports nothing heavy

        given = os.environ.get(self.blanks, str(MOST_WHITE_SPACE))
        if not re.fullmatch("-1|0*[1-9][0-9]{0,5}", given):
            raise ValueError(
                f"{self.blanks} is {given!r}, allowed are whole numbers from 1 on, and -1 for no bound; "
                f"{MOST_WHITE_SPACE} if not set"
            )
        return int(given)

    @property
    def drafting(self) -> str:
        """Name of the variable that says whether grammars continue drafts."""
        return f"{self.enabled}_DRAFTS"

    def drafts(self) -> bool:
        """Whether grammars continue the drafts of the engine's speculation: 0 if it is not set.

        Raises:
            ValueError: neither 0 nor 1.
        """
        given = os.environ.get(self.drafting, "0")
        if given not in ("0", "1"):
            raise ValueError(f"{self.drafting} is {given!r}, allowed are 0 (the default) and 1")
        return given == "1"

    def is_enabled(self) -> bool:
        """Whether the adapter serves: 1 if it is not set.

        Raises:
            ValueError: neither 0 nor 1.
        """
        return self.switch(self.enabled, "which is plain XGrammar")

    @property
    def metrics(self) -> str:
        """Name of the variable that says whether there are metrics."""
        return f"{self.enabled}_METRICS"

    def has_metrics(self) -> bool:
        """Whether metrics are shown where the engine shows its own: 1 if it is not set.

        Raises:
            ValueError: neither 0 nor 1.
        """
        return self.switch(self.metrics, "which shows none")

    @staticmethod
    def switch(name: str, off: str) -> bool:
        """What a variable says that is 0 or 1, and 1 if it is not set.

        Args:
            name: of the variable.
            off: what 0 means.

        Raises:
            ValueError: neither 0 nor 1.
        """
        given = os.environ.get(name, "1")
        if given not in ("0", "1"):
            raise ValueError(f"{name} is {given!r}, allowed are 1 (the default) and 0, {off}")
        return given == "1"

    @property
    def closing(self) -> str:
        """Name of the variable that says whether texts are closed within the tokens of a request."""
        return f"{self.enabled}_CLOSE"

    def closes(self) -> bool:
        """Whether masks keep room for the end of the text within the tokens of a request: 0 if not set.

        Raises:
            ValueError: neither 0 nor 1.
        """
        given = os.environ.get(self.closing, "0")
        if given not in ("0", "1"):
            raise ValueError(
                f"{self.closing} is {given!r}, allowed are 0 (the default) and 1, which closes texts in time"
            )
        return given == "1"

    @property
    def notices(self) -> str:
        """Name of the variable that names the operator's hook for `adapters.engines.notices`."""
        return f"{self.enabled}_NOTICES"

    def hook(self) -> str | None:
        """The operator's hook as ``module:function``; None for none."""
        return os.environ.get(self.notices) or None

    def compile_seconds(self) -> float:
        """Time of one compilation.

        Raises:
            ValueError: no positive number.
        """
        return self.positive(self.seconds, DEFAULT_SECONDS, "seconds")

    def cache_folder(self) -> str | None:
        """Folder that keeps compiled grammars for other processes; None for none."""
        return os.environ.get(self.folder) or None

    def positive(self, name: str, default: float, unit: str) -> float:
        """A number that a variable gives.

        Raises:
            ValueError: no positive number.
        """
        given = os.environ.get(name, str(default))
        try:
            number = float(given)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            raise ValueError(
                f"{name} is {given!r}, allowed is a positive number of {unit}; {default:g} if not set"
            )
        return number
