"""The text of a grammar inside a file: XGrammar's serialised form, checked before XGrammar uses it.

What: `grammar_of` makes an `xgrammar.Grammar` from a text of unknown origin; `written` makes the text of a
grammar.
When: by `hybrid.files.files`. The grammar is needed if a matcher outgrows its classifier, if a classifier is
completed, and by callers who ask for it.
Limits: the installed XGrammar's layout (`equivalence.network.dialect`). XGrammar's own reader checks types
only: if a rule or an expression does not exist, the process crashes when the grammar is printed or compiled.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xgrammar
from numpy.typing import NDArray

from equivalence.errors import ArtifactError
from equivalence.network import dialect, serial
from equivalence.network.grammar_reader import read_grammar
from hybrid.files.container import AGAIN, malformed
from hybrid.xgrammar.sanitize import refuse_endless_rules

FIXED_LENGTHS = {serial.EMPTY: 0, serial.RULE: 1, serial.REPEAT: 3}

PARTS = {
    serial.SEQUENCE: (
        serial.BYTES, serial.CLASS, serial.STAR, serial.RULE, serial.REPEAT, serial.TOKENS, serial.EXCLUDED,
        serial.PATTERN, serial.SUBSTRING,
    ),
    # byte strings if a dispatch lists what it excludes
    serial.CHOICES: (serial.EMPTY, serial.SEQUENCE, serial.BYTES),
}  # fmt: skip
"""The types of the parts of sequences and choices: those that XGrammar's parsers make, and that its compiler
relies on."""

BODIES = (serial.CHOICES, serial.TAGS, serial.TOKEN_TAGS, serial.PATTERN, serial.SUBSTRING)
"""The types that the body of a rule may have."""

LAST_CODE = 0x10FFFF
MOST = 2**31 - 1

DEEPEST = 20_000
"""Most levels of nested expressions. A group of a pattern takes two levels, and XGrammar survives 10,000
nested groups."""

RULE_TYPES = {(str, int, int, bool, int, int, str, bool, last) for last in (int, float, type(None))}
"""The types that the columns of a rule may have."""

NUMBERS = (serial.BODY, serial.LOOKAHEAD, serial.MAX_TOKENS, serial.MAX_CHARS)
"""The columns of a rule that are numbers."""

_COMPILED = f'"{serial.IS_COMPILED}":true'
"""This is in the text of a grammar to which XGrammar's compiler has added automata. They are not written, and
are made again if they are needed."""

Integers = NDArray[np.int64]


def written(grammar: xgrammar.Grammar) -> bytes:
    """Return the text of a grammar, without the data that XGrammar's compiler adds."""
    text = str(grammar.serialize_json())
    if _COMPILED in text:
        content = {**json.loads(text), **dialect.NOT_COMPILED}
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def grammar_of(text: bytes, n_tokens: int) -> xgrammar.Grammar:
    """Make the grammar that a text describes.

    Args:
        text: in the form that `written` returns.
        n_tokens: number of ids of the vocabulary.

    Raises:
        ArtifactError: XGrammar cannot read it, or something in it is out of range.
    """
    try:
        # first, because this refuses text that is nested deeply
        content = json.loads(text.decode("utf-8", "surrogatepass"), object_pairs_hook=_distinct)
        dialect.refuse_other_layout(content)
        _check(content, n_tokens)
        refuse_endless_rules(read_grammar(content))
        return xgrammar.Grammar.deserialize_json(text.decode("utf-8", "surrogatepass"))
    except ArtifactError:
        raise
    except (RuntimeError, ValueError) as error:
        raise ArtifactError(
            f"this version of XGrammar cannot read the grammar's own text ({error}); {AGAIN}"
        ) from error
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise malformed(f"its grammar's text has another form ({type(error).__name__}: {error})") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, and refuse equal names: two readers may use different values of one name."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise malformed("its grammar's text has two values for one name")
    return found


def _check(content: dict[str, Any], n_tokens: int) -> None:
    """Refuse a grammar that would lead XGrammar, or our kernels, to something that does not exist."""
    rules = content[serial.RULES]
    data = _integers(content[serial.DATA], "expressions")
    starts = _integers(content[serial.STARTS], "places of expressions")
    n = len(starts)
    for rule in rules:
        if tuple(map(type, rule)) not in RULE_TYPES:
            raise malformed(f"a rule of its grammar is {str(rule)[:200]}")
    numbers = np.array([[rule[column] for column in NUMBERS] for rule in rules], np.int64).reshape(-1, 4)
    if not len(numbers) or numbers[:, 0].min() < 0 or numbers[:, :2].max() >= n or numbers.min() < -1:
        raise malformed("a rule of its grammar has a body that does not exist, or a count out of range")
    root = content[serial.ROOT]
    if numbers.max() > MOST or type(root) is not int or not 0 <= root < len(rules):
        raise malformed("its grammar has a number out of range, or a root that does not exist")
    empty = _integers(content[serial.MAY_BE_EMPTY], "rules that may be empty")
    if len(empty) and not 0 <= empty.min() <= empty.max() < len(rules):
        raise malformed("a rule of its grammar that may be empty does not exist")
    if content[serial.MARKERS] or any(content[name] != value for name, value in dialect.NOT_COMPILED.items()):
        raise malformed("its grammar has markers, or automata of XGrammar's")
    types = _check_expressions(data, starts, len(rules), n_tokens, numbers[:, 0])
    lookaheads = numbers[numbers[:, 1] >= 0, 1]
    if not np.isin(types[numbers[:, 0]], BODIES).all() or (types[lookaheads] != serial.SEQUENCE).any():
        raise malformed("a rule of its grammar has a body or a lookahead of another type")


def _check_expressions(
    data: Integers, starts: Integers, n_rules: int, n_tokens: int, bodies: Integers
) -> Integers:
    """Check that all expressions are within the data and only refer to what exists. Return their types."""
    if not len(starts) or starts[0] < 0 or starts[-1] > len(data) - 2 or (np.diff(starts) < 2).any():
        raise malformed("the expressions of its grammar are out of order")
    types, lengths = data[starts], data[starts + 1]
    ends = starts + 2 + lengths
    if lengths.min() < 0 or (ends > np.append(starts[1:], len(data))).any():
        raise malformed("an expression of its grammar is longer than there is room for")
    if types.min() < 0 or types.max() >= serial.N_TYPES:
        raise malformed("its grammar has expressions of an unknown type")
    for fixed, length in FIXED_LENGTHS.items():
        if (lengths[types == fixed] != length).any():
            raise malformed(f"an expression of its grammar of type {fixed} has another length than {length}")
    owner: Integers = np.repeat(np.arange(len(starts)), lengths)
    begins: Integers = np.cumsum(lengths) - lengths
    place: Integers = np.arange(len(owner)) - begins[owner]
    values, type_of = data[starts[owner] + 2 + place], types[owner]
    least, most = np.zeros(len(values), np.int64), np.full(len(values), LAST_CODE)
    is_bytes = type_of == serial.BYTES
    least[is_bytes], most[is_bytes] = -128, 255  # C++ may write bytes as signed numbers
    most[(type_of == serial.TOKENS) | (type_of == serial.EXCLUDED)] = n_tokens - 1
    most[(type_of == serial.RULE) | ((type_of == serial.REPEAT) & (place == 0))] = n_rules - 1
    counts = (type_of == serial.REPEAT) & (place > 0)
    least[counts & (place == 2)], most[counts] = -1, MOST
    parts = (type_of == serial.SEQUENCE) | (type_of == serial.CHOICES)
    most[parts] = owner[parts] - 1  # parts are written before the whole: no expression contains itself
    for one in np.flatnonzero((types == serial.TAGS) | (types == serial.TOKEN_TAGS)).tolist():
        own = slice(int(begins[one]), int(begins[one] + lengths[one]))
        most[own] = _bounds(int(types[one]), values[own].tolist(), one, n_rules, n_tokens)
    if ((values < least) | (values > most)).any():
        raise malformed("an expression of its grammar holds a number out of range")
    classes = (types == serial.CLASS) | (types == serial.STAR)
    if (lengths[classes] % 2 == 0).any() or (data[starts[classes] + 2] > 1).any():
        raise malformed("a class of characters of its grammar is not in pairs")
    for whole, allowed in PARTS.items():
        if not np.isin(types[values[type_of == whole]], allowed).all():
            raise malformed(f"an expression of its grammar of type {whole} has parts of another type")
    is_body = np.zeros(len(starts), bool)
    is_body[bodies] = True
    if (types[values[is_body[owner] & (type_of == serial.CHOICES)]] == serial.BYTES).any():
        raise malformed("a choice of its grammar is not a sequence")
    _check_depth(values[parts], owner[parts], len(starts))
    return types


def _bounds(expression_type: int, values: list[int], number: int, n_rules: int, n_tokens: int) -> list[int]:
    """Return the greatest value that each integer of a dispatch may have.

    A dispatch is [(expression, rule) ..., loop, expression], or [n, (id, rule) n times, loop, m, id m times].
    """
    if expression_type == serial.TAGS:
        pairs = len(values) // 2 - 1
        found = [number - 1, n_rules - 1] * pairs + [1, number - 1]
    else:
        pairs = min(max(values[0], 0), len(values) // 2)
        excluded = len(values) - 2 * pairs - 3
        found = [pairs, *[n_tokens - 1, n_rules - 1] * pairs, 1, excluded, *[n_tokens - 1] * excluded]
        if excluded < 0 or values[0] != pairs or values[2 * pairs + 2] != excluded:
            found = []
    if len(found) != len(values):
        raise malformed("a dispatch of its grammar has another length than it says")
    return found


def _check_depth(parts: Integers, wholes: Integers, n: int) -> None:
    """Refuse expressions that are nested more deeply than XGrammar survives."""
    if n <= DEEPEST:
        return
    depths = [0] * n
    for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True):  # parts have lower numbers
        depths[whole] = max(depths[whole], depths[part] + 1)
    if max(depths) > DEEPEST:
        raise malformed(f"the expressions of its grammar are nested {max(depths)} deep")


def _integers(values: Any, what: str) -> Integers:
    """Check that values are a list of integers of 32 bits, which XGrammar uses, and return them as an
    array."""
    found = np.array(values) if isinstance(values, list) else np.empty(0, object)
    if not isinstance(values, list) or found.ndim != 1 or (values and found.dtype != np.int64):
        raise malformed(f"the {what} of its grammar are not a list of integers")
    if len(values) and not -MOST - 1 <= found.min() <= found.max() <= MOST:
        raise malformed(f"the {what} of its grammar hold numbers that are too large")
    return found.astype(np.int64)
