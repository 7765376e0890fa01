"""Automata that XGrammar itself makes: regex, substring and tag-dispatch rules.

What: XGrammar carries these rules unparsed until its optimiser turns them into automata. To keep their
exact meaning, XGrammar compiles such a rule alone (over one token), and its automaton is read back.
When: only for grammars with such rules; results for regexes are cached, because they depend on nothing else.
Limits: XGrammar's serialised form repeats all automata once for each rule. A pattern whose repeats XGrammar
unrolls into very many rules would take seconds to read; it is refused (`UnsupportedGrammar`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.bounded_cache import cached
from equivalence.deadline import Deadline
from equivalence.errors import UnsupportedGrammar
from equivalence.network import dialect, edge_types, serial
from equivalence.network.grammar_reader import ParsedGrammar
from equivalence.network.optimised import Wanted
from equivalence.network.optimised_grammar import OptimisedGrammar, optimised_grammar

MAX_SERIALIZED_BYTES = 32_000_000
"""Larger texts are refused: reading 8 MB takes about 0.25 s (the repeat {3,500} in one pattern)."""

MANY_CALLEES = 200
"""If a tag dispatch calls more rules than this, their calls are distinguished here, if possible
(`_many_tags`)."""

MOST_KEPT = 2000
"""Automata of longer patterns are not cached, because they might be large."""


PHASE = "the text of a grammar's tags"

SEPARATOR = "\u0100"
"""A character between texts whose bytes are written as characters."""


class ForeignRule(NamedTuple):
    """Automata of one rule: the rule's own first, then helper rules that XGrammar's optimiser added.

    Attributes:
        automata: for each rule (edge rows, number of states); state 0 begins, state 1 ends. Rows are
            (source, type, a, b, target) as in `edges.FIELDS`. A call's ``a`` >= 0 is a rule of the grammar,
            -1 - i is entry i of these automata, then of `repeats`.
        repeats: (rule, least, most) of calls that are bounded repeats, numbered after `automata`.
    """

    automata: tuple[tuple[NDArray[np.int64], int], ...]
    repeats: tuple[tuple[int, int, int], ...]


def foreign_rule(read: ParsedGrammar, rule: int, deadline: Deadline | None = None) -> ForeignRule:
    """The automata of rule number ``rule`` of a grammar, as XGrammar makes them.

    Raises:
        UnsupportedGrammar: XGrammar's automata cannot be read back.
        BudgetExceeded: the deadline has passed.
    """
    expression_type, body = read.expression(read.rules[rule][serial.BODY])
    if expression_type != serial.TAGS:  # regex and substring rules call no other rule
        known = _context_free if len(body) <= MOST_KEPT else _context_free.__wrapped__
        return known(expression_type, tuple(body))

    def text(expression: int) -> bytes:
        kind, values = read.expression(expression)
        if kind != serial.BYTES:
            raise UnsupportedGrammar("a tag dispatch contains something other than strings")
        return bytes(byte & 255 for byte in values)

    callees = list(dict.fromkeys(body[1:-2:2]))
    numbers = {callee: number for number, callee in enumerate(callees)}
    tags = tuple((text(body[i]), numbers[body[i + 1]]) for i in range(0, len(body) - 2, 2))
    kind, parts = read.expression(body[-1])
    if kind != serial.CHOICES:
        raise UnsupportedGrammar("a tag dispatch excludes something other than strings")
    excluded = tuple(map(text, parts))
    if len(callees) > MANY_CALLEES:
        many = _many_tags(tags, body[-2], excluded, deadline or Deadline())
        if many is not None:
            return _called(many, callees)
    is_short = sum(len(one) for one, _ in tags) + sum(map(len, excluded)) <= MOST_KEPT
    known_tags = _tags if is_short else _tags.__wrapped__
    return _called(known_tags(tags, body[-2], excluded), callees)


def _called(made: ForeignRule, callees: list[int]) -> ForeignRule:
    """The automata of a tag dispatch, with the rules of a grammar instead of its own numbers."""
    if not callees:
        return made
    numbers = np.array(callees, np.int64)
    automata = []
    for rows, n_states in made.automata:
        calls = (rows[:, 1] == edge_types.CALL) & (rows[:, 2] >= 0)
        rows = rows.copy()
        rows[calls, 2] = numbers[rows[calls, 2]]
        automata.append((rows, n_states))
    repeats = [(callees[unit] if unit >= 0 else unit, least, most) for unit, least, most in made.repeats]
    return ForeignRule(tuple(automata), tuple(repeats))


@cached(256)
def _tags(tags: tuple[tuple[bytes, int], ...], loop: int, excluded: tuple[bytes, ...]) -> ForeignRule:
    """The automata of a tag dispatch that calls rules 0, 1, 2 ...

    It is a separate grammar with placeholders for the rules: 128 tools in a notation of tags have 700 equal
    dispatches, and XGrammar took 12 ms for each with the rest of the grammar around it.
    """
    data: list[int] = []
    starts: list[int] = []

    def add(expression_type: int, body: Sequence[int]) -> int:
        starts.append(len(data))
        data.extend((expression_type, len(body), *body))
        return len(starts) - 1

    stand_in = add(serial.CHOICES, [add(serial.SEQUENCE, [add(serial.BYTES, b"x")])])
    names = {f"tag {number}": number for number in range(1 + max((callee for _, callee in tags), default=-1))}
    body: list[int] = []
    for text, callee in tags:
        body += (add(serial.BYTES, text), callee)
    dispatch = add(
        serial.TAGS, [*body, loop, add(serial.CHOICES, [add(serial.BYTES, one) for one in excluded])]
    )
    rules = [serial.plain_rule(name, stand_in) for name in names]
    return _rule_of(_grammar(data, starts, [*rules, serial.plain_rule("root", dispatch)]), names)


def _many_tags(
    tags: tuple[tuple[bytes, int], ...], loop: int, excluded: tuple[bytes, ...], deadline: Deadline
) -> ForeignRule | None:
    """`_tags` for many different rules; None if the states do not show which tag was read.

    XGrammar writes its automata once for each rule, so 4,000 tags with different contents would be
    gigabytes of text. Here all tags call one rule, and their states distinguish the calls: the text of a
    tag leads to the one state that calls. That holds if no tag is part of another and the automaton reads
    their bytes in only one way, which is checked.
    """
    if _is_any_within([text for text, _ in tags], deadline):
        return None
    made = _tags.__wrapped__(tuple((text, 0) for text, _ in tags), loop, excluded)
    rows = made.automata[0][0].copy()
    calling = (rows[:, 1] == edge_types.CALL) & (rows[:, 2] >= 0)
    callers: set[int] = set(rows[calling, 0].tolist())
    reads: dict[int, list[tuple[int, int, int]]] = {}
    for source, kind, low, high, target in rows[~calling].tolist():
        if kind == edge_types.BYTES:
            reads.setdefault(source, []).append((low, high, target))
        elif kind != edge_types.EMPTY or target != 1:
            return None
    callee_of: dict[int, int] = {}
    for text, callee in tags:
        state = 0
        for byte in text:
            found = [target for low, high, target in reads.get(state, ()) if low <= byte <= high]
            if len(found) != 1:
                return None
            state = found[0]
        callee_of[state] = callee
    is_told = callee_of.keys() == callers and len(callers) == len(tags) == int(calling.sum())
    others = made.automata[1:]
    if not is_told or any(((one[:, 1] == edge_types.CALL) & (one[:, 2] >= 0)).any() for one, _ in others):
        return None
    rows[calling, 2] = [callee_of[state] for state in rows[calling, 0].tolist()]
    return ForeignRule(((rows, made.automata[0][1]), *others), made.repeats)


def _is_any_within(texts: list[bytes], deadline: Deadline) -> bool:
    """Whether a text is empty, or a part of another one of the list."""
    joined = SEPARATOR.join(text.decode("latin-1") for text in texts)
    for text in texts:
        deadline.check(PHASE)
        part = text.decode("latin-1")
        if not part or joined.find(part, joined.find(part) + 1) >= 0:
            return True
    return False


def _grammar(data: list[int], starts: list[int], rules: list[list[Any]]) -> dict[str, Any]:
    """A serialised grammar whose last rule is the root."""
    return {
        serial.RULES: rules,
        serial.MARKERS: [],
        serial.DATA: data,
        serial.STARTS: starts,
        serial.ROOT: len(rules) - 1,
        serial.MAY_BE_EMPTY: [],
        serial.VERSION_FIELD: dialect.LAYOUT,
        **dialect.NOT_COMPILED,
    }


@cached(256)
def _context_free(expression_type: int, body: tuple[int, ...]) -> ForeignRule:
    sub = _grammar([expression_type, len(body), *body], [0], [serial.plain_rule("root", 0)])
    # the first entry of a pattern says whether it is a pattern of a JSON string
    codes = body[1:] if expression_type == serial.PATTERN else body
    pattern = "".join(chr(code) for code in codes if 0 <= code < 0x110000)
    return _rule_of(sub, {}, pattern)


def _rule_of(sub: dict[str, Any], names: dict[str, int], pattern: str = "") -> ForeignRule:
    made = optimised_grammar(Wanted(json.dumps(sub), MAX_SERIALIZED_BYTES, pattern))
    if made is None:
        raise UnsupportedGrammar(
            "a pattern whose repeats XGrammar unrolls into too many rules to read back; "
            "write the repeat in the grammar, or lower its bounds"
        )
    grammar, root = made.grammar, made.grammar[serial.ROOT]
    rules = [entry[serial.NAME] for entry in grammar[serial.RULES]]
    own = [root] + [number for number, name in enumerate(rules) if number != root and name not in names]
    code = {number: -1 - index for index, number in enumerate(own)}
    code.update({number: names[name] for number, name in enumerate(rules) if name in names})
    repeats: dict[tuple[int, int, int], int] = {}
    automata = []
    for number in own:
        _, begin, ends = grammar[serial.AUTOMATA_OF_RULES][number][0][:3]
        edges, n_states = _reachable_edges(made, begin, ends)
        _refuse_shared_counts(edges, n_states, made.details)
        for place in np.flatnonzero(edges[:, 1] < 0).tolist():
            kind, about = edges[place, 1:3].tolist()
            if kind == serial.EDGE_RULE:
                callee = code[about]
            elif kind == serial.EDGE_REPEAT:
                unit, least, most = made.details[about : about + 3]
                callee = -1 - repeats.setdefault((code[unit], least, most), len(own) + len(repeats))
            else:
                raise UnsupportedGrammar(f"an automaton of XGrammar has an edge of type {kind}")
            edges[place, 1:3] = edge_types.CALL, callee
        may_be_empty = number in grammar[serial.MAY_BE_EMPTY]
        automata.append(_with_empty_text(edges, n_states) if may_be_empty else (edges, n_states))
    return ForeignRule(tuple(automata), tuple(repeats))


def _reachable_edges(made: OptimisedGrammar, begin: int, ends: list[int]) -> tuple[NDArray[np.int64], int]:
    """The edges that can be reached from a state, int64[n, 5], and the number of states.

    State 0 is the start, and all states that may end lead to state 1 by an edge that reads nothing. Edges
    that read something other than bytes keep XGrammar's type.
    """
    number = {begin: 0}
    edges: list[tuple[int, int, int, int, int]] = []
    todo = [begin]
    for state in todo:  # it grows
        for low, high, target in made.rows[made.starts[state] : made.starts[state + 1]].tolist():
            if target not in number:
                number[target] = len(todo) + 1
                todo.append(target)
            if low >= 0:
                step = edge_types.BYTES, low, high
            elif low == serial.EDGE_EMPTY:
                step = edge_types.EMPTY, 0, 0
            else:
                step = low, high, 0
            edges.append((number[state], *step, number[target]))
    edges += [(number[end], edge_types.EMPTY, 0, 0, 1) for end in ends if end in number]
    return np.array(edges, np.int64).reshape(-1, 5), len(todo) + 1


def _with_empty_text(edges: NDArray[np.int64], n_states: int) -> tuple[NDArray[np.int64], int]:
    """An automaton that also accepts the empty text, and its number of states.

    XGrammar takes every tag dispatch for a rule that may be empty. But if a tag is the empty text, its
    automaton begins where it calls, which is no end.
    """
    if ((edges[:, 0] == 0) & (edges[:, 1] == edge_types.EMPTY) & (edges[:, 4] == 1)).any():
        return edges, n_states
    moved = edges.copy()  # other edges may lead to the first state
    for end in (0, 4):
        moved[edges[:, end] == 0, end] = n_states
    begin = [[0, edge_types.EMPTY, 0, 0, target] for target in (1, n_states)]
    return np.concatenate([np.array(begin, np.int64), moved]), n_states + 1


def _refuse_shared_counts(edges: NDArray[np.int64], n_states: int, details: list[int]) -> None:
    """Refuse a repeat that begins in a state from which something else leads, too.

    XGrammar keeps the number of units in that state, so the other edges can also be taken in the middle of
    the repeat: it accepts ``ab`` as ``a{1,200}|b``. The count even goes along edges that read bytes, to other
    repeats. Skipping the repeat is harmless if one unit is enough.

    Args:
        edges: the result of `_reachable_edges`.
        n_states: number of states.
        details: integers that edges refer to.
    """
    repeats = edges[edges[:, 1] == serial.EDGE_REPEAT]
    if not len(repeats):
        return
    least, target = np.zeros(n_states, np.int64), np.full(n_states, -1, np.int64)
    least[repeats[:, 0]] = np.array(details, np.int64)[repeats[:, 2] + 1]
    target[repeats[:, 0]] = repeats[:, 4]
    sources, kinds = edges[:, 0], edges[:, 1]
    skips = (kinds == edge_types.EMPTY) & (edges[:, 4] == target[sources]) & (least[sources] <= 1)
    others = (target[sources] >= 0) & ~skips
    if others.sum() > len(np.unique(repeats[:, 0])):
        raise UnsupportedGrammar(
            "a pattern with a long repeat that something else may replace, as in `a{1,200}|b`, `a*b{1,200}` "
            "or `(a{2,200})?`: XGrammar allows the other part even after the repeat has begun; write the "
            "pattern as a rule of a grammar, or use semantics='json-schema'"
        )
