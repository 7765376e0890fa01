"""Reading XGrammar's serialised grammars.

What: the expressions of a grammar as flat arrays, its rules as lists.
When: first step of `build_network`.
Limits: the layouts of `equivalence.network.layouts`, `GrammarError` for others.

The expressions are nearly all of the text; compiled code reads them, and `json.loads` the rest.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.network.expressions import only_repeats, types_among
from equivalence.network.integers import read_integers
from equivalence.network.layouts import own_layout, refuse_unread
from equivalence.network.serial import BODY, DATA, ROOT, RULES, STARTS

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
        return types_among(self.data, self.starts)

    @property
    def has_rule_of_repeat(self) -> bool:
        """Whether a rule is nothing but a repeat of a rule."""
        return only_repeats(self.data, self.starts, [rule[BODY] for rule in self.rules])

    @property
    def rules(self) -> list[Any]:
        """The rules, each with the columns that `equivalence.network.serial` names."""
        rules: list[Any] = self.features[RULES]
        return rules

    @property
    def root(self) -> int:
        """Number of the root rule."""
        return int(self.features[ROOT])

    def refuse_unread(self, types: set[int] | None = None) -> None:
        """As `equivalence.network.layouts.refuse_unread`; `types` where they are known."""
        refuse_unread(self.features, max(self.types if types is None else types, default=0))

    def whole(self) -> dict[str, Any]:
        """The serialised form with its expressions, as `json.loads` gives it; rules are not copied."""
        # lists of integers are made in a fifth of the time that reading them as JSON takes
        return {**self.features, DATA: self.data.tolist(), STARTS: self.starts.tolist()}


def read_grammar(grammar: Any) -> ReadGrammar:
    """Read an `xgrammar.Grammar`, or its serialised form as `json.loads` gives it; or keep what is read.

    Raises:
        GrammarError: it is serialised in a layout that is not known here.
        UnsupportedGrammar: something in it has no place in the layout that is read here.
    """
    read = read_as_far(grammar)
    read.refuse_unread()
    return read


def read_as_far(grammar: Any) -> ReadGrammar:
    """As `read_grammar`, which refuses what could not be read: for who asks nothing of that.

    Raises:
        GrammarError: it is serialised in a layout that is not known here.
    """
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
                return ReadGrammar(own_layout(features), data, starts)
        features = json.loads(text)
    features = own_layout(features)
    rest = {name: value for name, value in features.items() if name not in (DATA, STARTS)}
    return ReadGrammar(rest, np.array(features[DATA], np.int64), np.array(features[STARTS], np.int64))
