"""Automata that XGrammar itself makes: regex, substring and tag-dispatch rules.

What: XGrammar carries these rules unparsed until its optimiser turns them into automata. To keep its
meaning, such a rule is compiled by XGrammar alone (over one token) and its automaton is read back.
When: only for grammars that hold such rules; results for regexes are kept, as they depend on nothing else.
Limits: XGrammar's serialised form repeats all automata once per rule, so a pattern whose repeats XGrammar
unrolls into very many rules is refused (`UnsupportedGrammar`) rather than read for seconds.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import UnsupportedGrammar
from equivalence.network import edge_types, serial
from equivalence.network.optimised import Wanted, optimised

MAX_SERIALIZED_BYTES = 32_000_000
"""Refused above: reading 8 MB takes about 0.25 s (the repeat {3,500} in one pattern)."""

MOST_KEPT = 2000
"""Length of a pattern beyond which its automata are not kept, as they might be large."""


class ForeignRule(NamedTuple):
    """Automata of one rule: the rule's own first, then helper rules that XGrammar's optimiser added.

    Attributes:
        automata: per rule (edge rows, number of states); state 0 begins, state 1 ends. Rows are
            (source, type, a, b, target) as in `edges.FIELDS`. A call's ``a`` >= 0 is a rule of the grammar,
            -1 - i is entry i of these automata, then of `repeats`.
        repeats: (rule, least, most) of calls that are bounded repeats, numbered after `automata`.
    """

    automata: tuple[tuple[NDArray[np.int64], int], ...]
    repeats: tuple[tuple[int, int, int], ...]


def foreign_rule(serialized: dict[str, Any], rule: int) -> ForeignRule:
    """The automata of rule number ``rule`` of a serialised grammar, as XGrammar makes them."""
    data, starts, rules = serialized[serial.DATA], serialized[serial.STARTS], serialized[serial.RULES]
    at = starts[rules[rule][serial.BODY]]
    expression_type, length = data[at], data[at + 1]
    body = data[at + 2 : at + 2 + length]
    if expression_type != serial.TAGS:  # regex and substring rules call no other rule
        known = _context_free if length <= MOST_KEPT else _context_free.__wrapped__
        return known(expression_type, tuple(body))
    # rules are kept by name, with a stand-in for a body
    names = {rules[callee][serial.NAME]: callee for callee in serial.called_rules(expression_type, body)}
    sub = dict(serialized)
    stand_in = len(starts)
    text = [serial.BYTES, 1, ord("x")]
    text += [serial.SEQUENCE, 1, stand_in, serial.CHOICES, 1, stand_in + 1]
    sub[serial.DATA] = [*data, *text]
    sub[serial.STARTS] = [*starts, len(data), len(data) + 3, len(data) + 6]
    sub[serial.RULES] = [
        serial.plain_rule(entry[serial.NAME], entry[serial.BODY] if number == rule else stand_in + 2)
        for number, entry in enumerate(rules)
    ]
    sub[serial.ROOT] = rule
    sub[serial.MARKERS] = []
    return _read_back(sub, names)


@lru_cache(maxsize=256)
def _context_free(expression_type: int, body: tuple[int, ...]) -> ForeignRule:
    sub = {
        serial.RULES: [serial.plain_rule("root", 0)],
        serial.MARKERS: [],
        serial.DATA: [expression_type, len(body), *body],
        serial.STARTS: [0],
        serial.ROOT: 0,
        serial.MAY_BE_EMPTY: [],
        serial.VERSION_FIELD: serial.SERIALIZATION_VERSION,
        **serial.NOT_COMPILED,
    }
    pattern = "".join(chr(code) for code in body if 0 <= code < 0x110000)
    return _read_back(sub, {}, pattern)


def _read_back(sub: dict[str, Any], names: dict[str, int], pattern: str = "") -> ForeignRule:
    made = optimised(Wanted(json.dumps(sub), 2, MAX_SERIALIZED_BYTES, pattern))
    if made is None:
        raise UnsupportedGrammar(
            "a pattern whose repeats XGrammar unrolls into too many rules to read back; "
            "write the repeat in the grammar, or lower its bounds"
        )
    grammar, complete = made
    rows, pointers = complete["edges"]["data_"], complete["edges"]["indptr_"]
    details, root = complete[serial.EDGE_DETAILS], grammar[serial.ROOT]
    rules = [entry[serial.NAME] for entry in grammar[serial.RULES]]
    own = [root] + [number for number, name in enumerate(rules) if number != root and name not in names]
    code = {number: -1 - index for index, number in enumerate(own)}
    code.update({number: names[name] for number, name in enumerate(rules) if name in names})
    repeats: dict[tuple[int, int, int], int] = {}
    automata = []
    for number in own:
        entry = grammar[serial.AUTOMATA_OF_RULES][number][0]
        _, begin_state, ends = entry[0], entry[1], entry[2]
        state_of = {begin_state: 0}
        queue = [begin_state]
        found: list[list[int]] = []
        for state in queue:
            for low, high, target in rows[pointers[state] : pointers[state + 1]]:
                if target not in state_of:
                    state_of[target] = len(state_of) + 1  # 1 is the end
                    queue.append(target)
                source, destination = state_of[state], state_of[target]
                if low >= 0:
                    found.append([source, edge_types.BYTES, low, high, destination])
                elif low == serial.EDGE_EMPTY:
                    found.append([source, edge_types.EMPTY, 0, 0, destination])
                elif low == serial.EDGE_RULE:
                    found.append([source, edge_types.CALL, code[high], 0, destination])
                elif low == serial.EDGE_REPEAT:
                    unit, least, most = details[high : high + 3]
                    key = (code[unit], least, most)
                    index = repeats.setdefault(key, len(own) + len(repeats))
                    found.append([source, edge_types.CALL, -1 - index, 0, destination])
                else:
                    raise UnsupportedGrammar(f"an automaton of XGrammar has an edge of type {low}")
        found += [[state_of[state], edge_types.EMPTY, 0, 0, 1] for state in ends if state in state_of]
        automata.append((np.array(found, np.int64).reshape(-1, 5), len(state_of) + 1))
    return ForeignRule(tuple(automata), tuple(repeats))
