"""Instances: whether the grammar allows a parsed value, and how it writes it.

What: `Instances.text` writes a value with its keys in canonical order and its numbers spelled as the
grammar requires; None if the value is not valid.
When: for tests and benchmarks, and to show a model an example in the exact form of the grammar.
Limits: numbers are treated as `float` unless they are `int` or `Decimal`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hybrid.json_schema.automata import ArrayAutomaton, Edge, Nonterminal, ObjectAutomaton
from hybrid.json_schema.equality import are_distinct, key_of
from hybrid.json_schema.languages.numbers import shortest_text
from hybrid.json_schema.layout import is_text
from hybrid.json_schema.nonterminals import Nonterminals

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair. Grammars have it only in listed texts and declared names, as an escape."""


def _quoted(text: str) -> str:
    """Return the text as JSON, with no escapes that are not necessary."""
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):x}", json.dumps(text, ensure_ascii=False))


class Instances:
    """The values that one grammar allows."""

    def __init__(self, nonterminals: Nonterminals, start: Nonterminal) -> None:
        self._nonterminals, self._start = nonterminals, start

    def text(self, value: Any) -> str | None:
        """Return the text of a value, without white space; None if the grammar does not allow it."""
        return self._text(value, self._start)

    def _text(self, value: Any, one: Nonterminal) -> str | None:
        if not one.is_productive:
            return None
        if value is None:
            return "null" if one.null else None
        if isinstance(value, bool):
            return ("true" if value else "false") if value in one.booleans else None
        if isinstance(value, (int, float, Decimal)):
            return self._number(value, one)
        if isinstance(value, str):
            return _quoted(value) if self._writes(one, value) else None
        if isinstance(value, list):
            return None if one.array is None else self._array(value, one.array)
        return None if one.object is None else self._object(value, one.object)

    def _writes(self, one: Nonterminal, text: str) -> bool:
        strings = self._nonterminals.strings
        if not strings.writes(one.strings, text):
            return False
        return is_text(text) or strings.listed(one.strings) is not None

    def _number(self, value: Any, one: Nonterminal) -> str | None:
        """Return the number as Python writes it; if the grammar does not have that text, without exponent or
        fraction. Infinity, as which Python reads `1e400`, has none."""
        if not Decimal(value).is_finite():
            return None
        texts = self._nonterminals.numbers.texts(one.numbers)
        exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
        for text in (
            json.dumps(value) if not isinstance(value, Decimal) else str(value),
            shortest_text(exact),
        ):
            if texts.contains(text):
                return text
        return None

    def _array(self, value: list[Any], automaton: ArrayAutomaton) -> str | None:
        state = 0
        parts: list[str] = []
        seen: set[Any] | None = set() if automaton.is_conditional else None
        if automaton.is_unique and not are_distinct(value):
            return None
        for i, item in enumerate(value):
            counted = automaton.counted[state]
            if counted is not None:
                left = len(value) - i
                if left < counted.least or (counted.most is not None and left > counted.most):
                    return None
                texts = [self._text(one, counted.value) for one in value[i:]]
                found = [text for text in texts if text is not None]
                return f"[{','.join(parts + found)}]" if len(found) == len(texts) else None
            text, state = self._step(item, automaton.edges[state], automaton.is_live)
            if text is None:
                return None
            parts.append(text)
            if seen is not None:
                key = key_of(item)
                if key in seen:
                    state = automaton.repeats[state]
                if state < 0:
                    return None
                seen.add(key)
        return f"[{','.join(parts)}]" if automaton.accepting[state] else None

    def _step(self, value: Any, edges: Iterable[Edge], live: list[bool]) -> tuple[str | None, int]:
        for one, target in edges:
            if live[target]:
                text = self._text(value, one)
                if text is not None:
                    return text, target
        return None, -1

    def _object(self, value: dict[str, Any], automaton: ObjectAutomaton) -> str | None:
        state, parts = 0, []
        for position, name in enumerate(automaton.names):
            if automaton.position[state] > position:  # no such key may come
                if name in value:
                    return None
            elif name in value:
                text, state = self._step(value[name], automaton.edges[state], automaton.is_live)
                if text is None:
                    return None
                parts.append(f"{_quoted(name)}:{text}")
            else:
                state = automaton.skipped[state]
                if state < 0 or not automaton.is_live[state]:
                    return None
        declared = set(automaton.names)
        for name in value:
            if name in declared:
                continue
            extra = dict(automaton.extra[state])
            number = next((n for n in extra if automaton.classes[n].contains(name)), None)
            if number is None or not is_text(name):
                return None
            text, state = self._step(value[name], extra[number], automaton.is_live)
            if text is None:
                return None
            parts.append(f"{_quoted(name)}:{text}")
        return f"{{{','.join(parts)}}}" if automaton.accepting[state] else None
