"""Reading XGrammar's serialised grammars.

What: the expressions of a grammar as flat arrays, its rules as lists.
When: first step of `build_network`.
Limits: one version of the layout (`SERIALIZATION_VERSION`), `GrammarError` for others.

The expressions are nearly all of the text; compiled code reads them, and `json.loads` the rest.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import GrammarError
from equivalence.network.integers import read_integers
from equivalence.network.serial import DATA, ROOT, RULES, SERIALIZATION_VERSION, STARTS, VERSION_FIELD

# A quote inside a JSON string is escaped, so these bytes occur nowhere else.
_BEFORE_DATA, _BEFORE_STARTS = f'"{DATA}":['.encode(), f'],"{STARTS}":['.encode()


class ReadGrammar(NamedTuple):
    """A serialised grammar.

    Attributes:
        features: the serialised form without the expressions.
        data, starts: int64, the expressions (type, length, body) and where each begins.
        is_escaped: whether byte 255 of text is read twice (`equivalence.network.token_ids`).
    """

    features: dict[str, Any]
    data: NDArray[np.int64]
    starts: NDArray[np.int64]
    is_escaped: bool = False

    @property
    def types(self) -> set[int]:
        """The types of all expressions, read anew each time."""
        return set(self.data[self.starts].tolist())

    @property
    def rules(self) -> list[Any]:
        """The rules, each with the columns that `equivalence.network.serial` names."""
        rules: list[Any] = self.features[RULES]
        return rules

    @property
    def root(self) -> int:
        """Number of the root rule."""
        return int(self.features[ROOT])

    def whole(self) -> dict[str, Any]:
        """The serialised form with its expressions, as `json.loads` gives it; rules are not copied."""
        # lists of integers are made in a fifth of the time that reading them as JSON takes
        return {**self.features, DATA: self.data.tolist(), STARTS: self.starts.tolist()}


def read_grammar(grammar: Any) -> ReadGrammar:
    """Read an `xgrammar.Grammar`, or its serialised form as `json.loads` gives it; or keep what is read."""
    if isinstance(grammar, ReadGrammar):
        return grammar
    features: dict[str, Any]
    if isinstance(grammar, dict):
        features = grammar
    else:
        text = grammar.serialize_json().encode()
        at = text.find(_BEFORE_DATA)
        if at >= 0:
            data, end = read_integers(text, at + len(_BEFORE_DATA))
            if text.startswith(_BEFORE_STARTS, end):
                starts, end = read_integers(text, end + len(_BEFORE_STARTS))
                features = json.loads(text[:at] + b'"read":[' + text[end:])
                del features["read"]
                check_version(features)
                return ReadGrammar(features, data, starts)
        features = json.loads(text)
    check_version(features)
    rest = {name: value for name, value in features.items() if name not in (DATA, STARTS)}
    return ReadGrammar(rest, np.array(features[DATA], np.int64), np.array(features[STARTS], np.int64))


def check_version(features: dict[str, Any]) -> None:
    """Refuse a serialised grammar of a layout that is not read here, by a `GrammarError`."""
    if features.get(VERSION_FIELD) != SERIALIZATION_VERSION:
        raise GrammarError(
            f"XGrammar serialises grammars in version {features.get('__VERSION__')!r}, read here is "
            f"{SERIALIZATION_VERSION!r}; install xgrammar 0.2.7 or 0.2.8, or use strategy='engine'"
        )
