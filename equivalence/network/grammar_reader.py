"""Reading XGrammar's serialised grammars.

What: the expressions of a grammar become flat arrays, its rules become lists.
When: first step of `build_network`.
Limits: the layout of `equivalence.network.dialect`; others raise `GrammarError`.

The expressions are nearly all of the text. numpy reads them, in a seventh of the time of `json.loads`, which
reads the rest.

XGrammar takes six times as long to serialise a grammar as to print it. For most JSON schemas the printed
text is complete (`equivalence.network.printed`). Then `read_printed` reads that, and the serialised form is
only made when all of it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Set
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.network import dialect, serial
from equivalence.network.counted_automata import CountedAutomaton
from equivalence.network.edges import Edges
from equivalence.network.endless_rules import endless_rule
from equivalence.network.printed import Printed

# A quote inside a JSON string is escaped, so these texts occur nowhere else.
_BEFORE_DATA, _BEFORE_STARTS = f'"{serial.DATA}":[', f'],"{serial.STARTS}":['


FIRST_RULE = b"root"
"""The name that XGrammar's converter of schemas gives to the start rule."""

_PROBE = r"""root ::= ("" | ("a\"\'\?\\\a\b\f\n\r\t\v\e\x7f~ {}()[]|\u0100\U00010000" b-1.c_D{2, 3} b-1.c_D{0, -1}))
b-1.c_D ::= (([a-z\-\][\"^\0\x80-\u0fff]*) | ([^\0-\x1f\"\\\U00010000-\U0010ffff] b-1.c_D)) (=([ \n]))
"""  # noqa: E501 - as it is printed
"""A grammar as printed by an XGrammar whose printed texts are read here."""


MOST_KEPT, LARGEST_KEPT = 4, 1 << 16
"""At most this many tables of printed texts are kept for later texts, and none that has just read a text of
more bytes than this. So they take at most 2 MB."""

_waiting: list[Printed] = []
"""Tables that are not in use."""


class PlainRules(Sequence[list[Any]]):
    """Rules without bounds, captures and the like. Each row is made on demand.

    Making all rows took 2% of the time to a schema's first mask, and they are rarely needed.

    Args:
        name_of: the name of a rule, by its number.
        bodies: int64, their expressions.
    """

    def __init__(self, name_of: Callable[[int], str], bodies: NDArray[np.int64]) -> None:
        self.name_of, self.bodies = name_of, bodies

    def __len__(self) -> int:
        return len(self.bodies)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return serial.plain_rule(self.name_of(number), int(self.bodies[number]))


class ParsedGrammar(NamedTuple):
    """A serialised grammar.

    Attributes:
        features: the serialised form without the expressions.
        data, starts: int64, the expressions (type, length, body), and where each begins.
        types: the types of all expressions.
        is_escaped: whether byte 255 of text is read twice (`equivalence.network.token_ids`).
        printed: the grammar object, if something other than its serialised form was read.
        edges: the automata of rules whose body is -1, over characters (`equivalence.network.characters`);
            None: every rule has a body.
        automata: the counted automata; their edges are repeats (`equivalence.network.counted_automata`).
    """

    features: dict[str, Any]
    data: NDArray[np.int64]
    starts: NDArray[np.int64]
    types: Set[int]
    is_escaped: bool = False
    printed: Any = None
    edges: Edges | None = None
    automata: tuple[CountedAutomaton, ...] = ()

    @property
    def endless_rule(self) -> int:
        """A rule that is only a repeat of itself, perhaps through others; -1 if there is none."""
        if self.edges is not None:
            return -1  # a rule that is a repeat repeats a rule with an automaton, which reads something
        return endless_rule(self.data, self.starts, self.bodies)

    @property
    def rules(self) -> Sequence[Any]:
        """The rules, each with the columns that `equivalence.network.serial` names."""
        rules: Sequence[Any] = self.features[serial.RULES]
        return rules

    @property
    def bodies(self) -> NDArray[np.int64]:
        """The expression of each rule, int64."""
        rules = self.rules
        if isinstance(rules, PlainRules):
            return rules.bodies
        return np.array([rule[serial.BODY] for rule in rules], np.int64)

    @property
    def root(self) -> int:
        """Number of the root rule."""
        return int(self.features[serial.ROOT])

    def expression(self, number: int) -> tuple[int, list[int]]:
        """The type and the body of an expression."""
        at = int(self.starts[number])
        expression_type, length = self.data[at : at + 2].tolist()
        return expression_type, self.data[at + 2 : at + 2 + length].tolist()

    def whole(self) -> dict[str, Any]:
        """The serialised form with its expressions, as parsed by `json.loads`; rules are not copied."""
        read = self if self.printed is None else read_serialised(self.printed.serialize_json())
        # making lists of integers takes a fifth of the time of reading them as JSON
        data, starts = read.data.tolist(), read.starts.tolist()
        return {**read.features, serial.RULES: list(read.rules), serial.DATA: data, serial.STARTS: starts}


class ParsedRules(NamedTuple):
    """The rules of a printed grammar.

    Attributes:
        names: int64[rules, 2], where the name of each rule begins and ends in the text.
        bodies: int64[rules], the expression of each rule.
        data, starts: the expressions, as in `ParsedGrammar`.
        first: the number of the rule that was asked for; -1 if there is none.
        types: the types of all expressions.
    """

    names: NDArray[np.int64]
    bodies: NDArray[np.int64]
    data: NDArray[np.int64]
    starts: NDArray[np.int64]
    first: int
    types: frozenset[int]


def read_grammar(grammar: Any, counted: bool = False) -> ParsedGrammar:
    """Read an `xgrammar.Grammar`, or its serialised form as parsed by `json.loads`. A `ParsedGrammar` is
    returned unchanged. A grammar with an attribute `read` has been read already.

    Args:
        grammar: the grammar.
        counted: whether it may have counted automata: then an attribute `counted` comes first.

    Raises:
        GrammarError: its layout is not known here.
    """
    if isinstance(grammar, ParsedGrammar):
        return grammar
    for name in ("counted", "read")[not counted :]:
        read = None if isinstance(grammar, dict) else getattr(grammar, name, None)
        if isinstance(read, ParsedGrammar):
            return read
    return _read_features(grammar) if isinstance(grammar, dict) else read_serialised(grammar.serialize_json())


def types_among(data: NDArray[np.int64], starts: NDArray[np.int64]) -> set[int]:
    """The types of all expressions. Arguments are as in `ParsedGrammar`."""
    return set(np.unique(data[starts]).tolist())


def read_serialised(serialised: str) -> ParsedGrammar:
    """Read the text of a serialised grammar.

    Raises:
        GrammarError: its layout is not known here.
    """
    at = serialised.find(_BEFORE_DATA)
    if at >= 0:
        data, end = _integers(serialised, at + len(_BEFORE_DATA))
        if serialised.startswith(_BEFORE_STARTS, end):
            starts, end = _integers(serialised, end + len(_BEFORE_STARTS))
            features = json.loads(f'{serialised[:at]}"read":[{serialised[end:]}')
            del features["read"]
            dialect.refuse_other_layout(features)
            return ParsedGrammar(features, data, starts, types_among(data, starts))
    return _read_features(json.loads(serialised))


def _integers(text: str, begin: int) -> tuple[NDArray[np.int64], int]:
    """The integers of a list without spaces, and the place of its closing bracket."""
    end = text.index("]", begin)
    return integers_of(text[begin:end]), end


def integers_of(text: str) -> NDArray[np.int64]:
    """The integers of a text, between commas.

    Raises:
        ValueError: there is something else.
    """
    found = np.fromstring(text, np.int64, sep=",")
    if len(found) != text.count(",") + (text != ""):  # numpy stops at what it cannot read
        raise ValueError("something in a list of integers is not an integer")
    return found


def _read_features(features: dict[str, Any]) -> ParsedGrammar:
    """Read the serialised form as parsed by `json.loads`."""
    dialect.refuse_other_layout(features)
    data, starts = (np.array(features[name], np.int64) for name in (serial.DATA, serial.STARTS))
    rest = {name: value for name, value in features.items() if name not in (serial.DATA, serial.STARTS)}
    return ParsedGrammar(rest, data, starts, types_among(data, starts))


def read_printed(grammar: Any, has_caret: bool) -> ParsedGrammar | None:
    """Read the printed text of a grammar that XGrammar's converter has made from a JSON schema. None if the
    text is not complete, or if XGrammar prints in a form that is not known here.

    Args:
        grammar: an `xgrammar.Grammar` without a byte 0 in its texts.
        has_caret: whether the first character of a class may be a caret.
    """
    if not _prints_as_known():
        return None
    text = str(grammar).encode()
    found = read_rules(text, has_caret)
    if found is None or found.first < 0:
        return None

    def name_of(rule: int) -> str:
        begin, end = found.names[rule].tolist()
        return text[begin:end].decode()

    rules = PlainRules(name_of, found.bodies)
    features = {
        serial.VERSION_FIELD: dialect.LAYOUT,
        serial.RULES: rules,
        serial.ROOT: found.first,
        serial.MARKERS: [],
    }
    return ParsedGrammar(features, found.data, found.starts, found.types, printed=grammar)


def read_rules(text: bytes, has_caret: bool) -> ParsedRules | None:
    """The rules of a printed text; None if not all of them have the form that is read. Arguments are those of
    `Printed.read`."""
    try:
        printed = _waiting.pop()
    except IndexError:
        printed = Printed()
    try:
        fields = printed.read(text, has_caret, FIRST_RULE)
    except IndexError:  # it ends in the middle
        fields = None
    if len(text) <= LARGEST_KEPT and len(_waiting) < MOST_KEPT:
        printed.forget()
        _waiting.append(printed)
    return None if fields is None else ParsedRules(*fields)


@cache
def _prints_as_known() -> bool:
    """Whether the installed XGrammar prints and serialises grammars in the known form; checked once."""
    import xgrammar

    if xgrammar.get_serialization_version() != dialect.LAYOUT:
        return False
    try:
        dialect.refuse_other_meaning()
        return str(xgrammar.Grammar.from_ebnf(_PROBE)) == _PROBE
    except RuntimeError:
        return False
