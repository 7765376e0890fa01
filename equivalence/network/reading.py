"""Reading XGrammar's serialised grammars.

What: the expressions of a grammar as flat arrays, its rules as lists.
When: first step of `build_network`.
Limits: one version of the layout (`SERIALIZATION_VERSION`), `GrammarError` for others.

The expressions are nearly all of the text; a kernel reads them, and `json.loads` the rest.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import GrammarError
from equivalence.network import _kernels

SERIALIZATION_VERSION = "v16"
"""The layout of `xgrammar.Grammar.serialize_json` that is read here."""

# A quote inside a JSON string is escaped, so these bytes occur nowhere else.
_DATA, _STARTS = b'"grammar_expr_data":[', b'],"grammar_expr_indptr":['


class ReadGrammar(NamedTuple):
    """A serialised grammar.

    Attributes:
        features: the serialised form, maybe without the expressions.
        data, starts: int64, the expressions (type, length, body) and where each begins.
        text: the whole, unless `features` is the whole.
    """

    features: dict[str, Any]
    data: NDArray[np.int64]
    starts: NDArray[np.int64]
    text: bytes

    @property
    def rules(self) -> list[Any]:
        """Per rule [name, body, lookahead, exact, max_tokens, max_chars, capture, lazy, temperature]."""
        rules: list[Any] = self.features["rules"]
        return rules

    @property
    def root(self) -> int:
        """Number of the root rule."""
        return int(self.features["root_rule_id"])

    def whole(self) -> dict[str, Any]:
        """The serialised form with its expressions."""
        whole: dict[str, Any] = json.loads(self.text) if self.text else self.features
        return whole


def read_grammar(grammar: Any) -> ReadGrammar:
    """Read an `xgrammar.Grammar`, or its serialised form as `json.loads` gives it."""
    text = b"" if isinstance(grammar, dict) else grammar.serialize_json().encode()
    at = text.find(_DATA)
    if at >= 0:
        raw = np.frombuffer(text, np.uint8)
        data, end = _kernels.read_integers(raw, at + len(_DATA))
        if text.startswith(_STARTS, end):
            starts, end = _kernels.read_integers(raw, end + len(_STARTS))
            features = json.loads(text[:at] + b'"read":[' + text[end:])
            _check_version(features)
            return ReadGrammar(features, data, starts, text)
    features = grammar if isinstance(grammar, dict) else json.loads(text)
    _check_version(features)
    return ReadGrammar(
        features,
        np.array(features["grammar_expr_data"], np.int64),
        np.array(features["grammar_expr_indptr"], np.int64),
        b"",
    )


def _check_version(features: dict[str, Any]) -> None:
    if features.get("__VERSION__") != SERIALIZATION_VERSION:
        raise GrammarError(
            f"XGrammar serialises grammars in version {features.get('__VERSION__')!r}, read here is "
            f"{SERIALIZATION_VERSION!r}; install xgrammar 0.2.8, or use strategy='engine'"
        )
