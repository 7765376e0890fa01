"""The grammar network: one byte automaton per rule, with calls, in a normal form.

What: a recursive transition network that reads exactly what XGrammar reads, down to UTF-8. It is taken
from XGrammar's own parsers and converters, through `Grammar.serialize_json`; nothing is parsed here.
When: built once per grammar, in about a millisecond for a typical JSON schema; independent of the vocabulary.
Limits: byte-level constructs only. What acts on token ids or on counts outside the grammar raises
`UnsupportedGrammar` with its name; `max_states` bounds the size.

The normal form, each step of which keeps the set of stacks that can read a byte (docs/theory.md):

1. a nullable rule becomes non-empty and its calls optional;
2. left recursion, direct, indirect or hidden behind nullable rules, becomes a loop at the rule's end;
3. a tail call of a rule to itself becomes a loop, other tail calls leave no return state;
4. small call-free rules are copied into their callers;
5. each rule is determinised, then all states that read the same way are merged, whatever their rule;
6. a repeat {m,n} is one *counted rule* with true counters, whatever m and n are.

Lookahead assertions are ignored: `accept_token` ignores them too.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import BudgetExceeded, GrammarError, UnsupportedGrammar
from equivalence.network import _kernels
from equivalence.network.foreign import ForeignRule, foreign_rule

SERIALIZATION_VERSION = "v16"
"""The layout of `xgrammar.Grammar.serialize_json` that is read here."""

_TOKEN_LEVEL = {9: "token edges", 10: "excluded tokens", 11: "token tag dispatch"}
_FOREIGN = {7, 12, 13}  # tag dispatch, regex, substring: their automata are XGrammar's to make

Integers = NDArray[np.int64]


class Network(NamedTuple):
    """The merged network and what may lie below each of its states.

    A *symbol* is what lies on the stack: a state to return to, or -1 - k, the frame of counted class k.
    A *below set* holds the symbols that may lie directly below a rule's states.

    Attributes:
        automaton: the arrays of `_kernels.quotient`, ready for the exploring kernels.
        contexts: int64[C, 2], rows (symbol, counted class below or -1) that may be on top of the stack.
        context_starts, context_below: the below sets of each context (CSR).
        below_starts, below_symbols, below_of_symbol: symbols of each below set, and the set below each (CSR).
        below_bottom: bool[B], sets that may be the bottom of the stack.
        n_rules: rules of the grammar that the network uses.
    """

    automaton: tuple[Any, ...]
    contexts: Integers
    context_starts: Integers
    context_below: Integers
    below_starts: Integers
    below_symbols: Integers
    below_of_symbol: Integers
    below_bottom: NDArray[np.bool_]
    n_rules: int

    @property
    def n_states(self) -> int:
        """Number of states after merging."""
        return int(self.automaton[0].size)


def build_network(grammar: Any, *, token_bytes: int, max_states: int = 200_000) -> Network:
    """The network of an `xgrammar.Grammar`, or of its serialised form as `json.loads` gives it.

    Args:
        grammar: the grammar; lookahead assertions, captures and temperatures do not matter.
        token_bytes: bytes of the longest token: larger bounds of a repeat cannot be told apart by one token.
        max_states: bound on the states of every intermediate automaton.

    Raises:
        UnsupportedGrammar: a construct that a byte-level network cannot keep exact, by name.
        BudgetExceeded: more than `max_states` states.
        GrammarError: a serialisation of another version.
    """
    serialized = grammar if isinstance(grammar, dict) else json.loads(grammar.serialize_json())
    check_version(serialized)
    rules = serialized["rules"]
    data = np.array(serialized["grammar_expr_data"], np.int64)
    starts = np.array(serialized["grammar_expr_indptr"], np.int64)
    root = int(serialized["root_rule_id"])
    bodies = np.array([rule[1] for rule in rules], np.int64)
    n_rules = len(rules)
    edges: Integers = np.zeros((256, 5), np.int64)
    n_edges, n_states = 0, 2 * n_rules
    if _FOREIGN.intersection(data[starts[bodies]].tolist()):
        foreign = {
            rule: foreign_rule(serialized, rule)
            for rule in _reachable(data, starts, bodies, root)
            if int(data[starts[bodies[rule]]]) in _FOREIGN
        }
        data, starts, bodies, edges, n_states = _add_foreign(foreign, data, starts, bodies)
        n_edges, n_rules = len(edges), len(bodies)
    status, detail, edges, n_edges, n_states, counted, reachable = _kernels.build_automata(
        data, starts, bodies, root, max_states, edges, n_edges, n_states
    )
    if status == 1:
        raise _too_large(max_states)
    if status == 2:
        raise UnsupportedGrammar(f"the grammar has {_TOKEN_LEVEL.get(detail, f'expression type {detail}')}")
    _refuse_rule_features(rules, serialized, reachable[: len(rules)])

    begins = np.where(reachable > 0, 2 * np.arange(n_rules), -1)
    ends = begins + 1
    nullable = _kernels.nullable_rules(edges, n_edges, n_states, begins, ends, counted)
    order = _kernels.call_order(edges, n_edges, n_states, begins, counted, root)
    pairs = _kernels.left_calls(edges, n_edges, n_states, begins, nullable, order)
    cyclic = _left_recursive(pairs, counted, n_rules)
    if cyclic:
        edges, n_edges, n_states = _remove_left_recursion(
            cyclic, edges, n_edges, n_states, begins, ends, nullable, n_rules, max_states
        )
        order = _kernels.call_order(edges, n_edges, n_states, begins, counted, root)
    status, *automata = _kernels.determinise(
        edges, n_edges, n_states, begins, ends, counted, nullable, order, max_states
    )
    if status:
        raise _too_large(max_states)
    return _merge(automata, counted, nullable, root, n_rules, token_bytes)


def check_version(serialized: dict[str, Any]) -> None:
    """Refuse a serialised grammar of a layout that is not read here, by a `GrammarError`."""
    if serialized.get("__VERSION__") != SERIALIZATION_VERSION:
        raise GrammarError(
            f"XGrammar serialises grammars in version {serialized.get('__VERSION__')!r}, read here is "
            f"{SERIALIZATION_VERSION!r}; install xgrammar 0.2.8, or use strategy='engine'"
        )


def _add_foreign(
    foreign: dict[int, ForeignRule], data: Integers, starts: Integers, bodies: Integers
) -> tuple[Integers, Integers, Integers, Integers, int]:
    """Number XGrammar's automata and their helper rules after the grammar's own rules."""
    numbers: dict[int, list[int]] = {}
    n_rules = len(bodies)
    for rule, entry in foreign.items():
        extra = len(entry.automata) - 1 + len(entry.repeats)
        numbers[rule] = [rule, *range(n_rules, n_rules + extra)]
        n_rules += extra
    new_bodies = np.concatenate([bodies, np.full(n_rules - len(bodies), -1, np.int64)])
    new_data, new_starts = data.tolist(), starts.tolist()
    n_states = 2 * n_rules
    tables = []
    for rule, entry in foreign.items():
        number = numbers[rule]
        for own, (rows, width) in zip(number, entry.automata, strict=False):
            table = rows.copy()
            for column in (0, 4):
                inner = table[:, column] >= 2
                table[:, column] += np.where(inner, n_states - 2, 2 * own)
            called = (table[:, 1] == 2) & (table[:, 2] < 0)
            table[called, 2] = np.array(number, np.int64)[-1 - table[called, 2]]
            tables.append(table)
            n_states += width - 2
            new_bodies[own] = -1
        for own, (unit, least, most) in zip(number[len(entry.automata) :], entry.repeats, strict=True):
            new_bodies[own] = len(new_starts)
            new_starts.append(len(new_data))
            new_data += [8, 3, number[-1 - unit] if unit < 0 else unit, least, most]
    edges = np.concatenate(tables) if tables else np.zeros((0, 5), np.int64)
    return np.array(new_data, np.int64), np.array(new_starts, np.int64), new_bodies, edges, n_states


def _too_large(max_states: int) -> BudgetExceeded:
    return BudgetExceeded(
        f"the grammar network has more than {max_states} states; raise the budget's states, simplify the "
        "grammar, or use strategy='engine'"
    )


def _refuse_rule_features(rules: list[Any], serialized: dict[str, Any], reachable: NDArray[np.uint8]) -> None:
    for index in np.flatnonzero(reachable).tolist():
        name, _, _, _, max_tokens, max_chars, _, is_lazy, _ = rules[index]
        feature = (
            "bounded by max_tokens"
            if max_tokens >= 0
            else "bounded by max_chars"
            if max_chars >= 0
            else "lazy"
            if is_lazy
            else ""
        )
        if feature:
            raise UnsupportedGrammar(f"rule {name!r} is {feature}, which the stack alone does not tell")
    if serialized.get("suffix_stop_infos"):
        raise UnsupportedGrammar("the grammar has suffix or stop markers of captures")


def _reachable(data: Integers, starts: Integers, bodies: Integers, root: int) -> list[int]:
    """Rules reachable from the root, by a plain walk over the expressions."""
    seen, rules = {root}, [root]
    for rule in rules:
        stack = [int(bodies[rule])]
        while stack:
            at = int(starts[stack.pop()])
            kind, length = int(data[at]), int(data[at + 1])
            body = data[at + 2 : at + 2 + length].tolist()
            found: list[int] = []
            if kind in (5, 6):
                stack.extend(body)
            elif kind in (4, 8):
                found = [body[0]]
            elif kind == 7:
                found = body[1:-2:2]
            elif kind == 11:
                found = body[2 : 2 + 2 * body[0] : 2]
            for callee in found:
                if callee not in seen:
                    seen.add(callee)
                    rules.append(callee)
    return rules


def _left_recursive(pairs: Integers, counted: Integers, n_rules: int) -> list[set[int]]:
    """The sets of rules that call each other before reading a byte (strongly connected components)."""
    graph: dict[int, set[int]] = {}
    for caller, callee in pairs.tolist():
        graph.setdefault(caller, set()).add(callee)
    for index, (unit, _, _) in enumerate(counted.tolist()):
        graph.setdefault(n_rules + index, set()).add(unit)
    components = [
        component
        for component in _components(graph)
        if len(component) > 1 or next(iter(component)) in graph.get(next(iter(component)), ())
    ]
    for component in components:
        if any(rule >= n_rules for rule in component):
            raise UnsupportedGrammar("the grammar is left recursive through a bounded repeat")
    return components


def _components(graph: dict[int, set[int]]) -> list[set[int]]:
    """Strongly connected components (Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    on_stack: set[int] = set()
    components: list[set[int]] = []
    for origin in graph:
        if origin in index:
            continue
        work = [(origin, iter(sorted(graph.get(origin, ()))))]
        index[origin] = low[origin] = len(index)
        open_nodes.append(origin)
        on_stack.add(origin)
        while work:
            node, successors = work[-1]
            for following in successors:
                if following not in index:
                    index[following] = low[following] = len(index)
                    open_nodes.append(following)
                    on_stack.add(following)
                    work.append((following, iter(sorted(graph.get(following, ())))))
                    break
                if following in on_stack:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while True:
                        member = open_nodes.pop()
                        on_stack.discard(member)
                        component.add(member)
                        if member == node:
                            break
                    components.append(component)
    return components


def _remove_left_recursion(
    components: list[set[int]],
    edges: Integers,
    n_edges: int,
    n_states: int,
    begins: Integers,
    ends: Integers,
    nullable: NDArray[np.uint8],
    n_rules: int,
    max_states: int,
) -> tuple[Integers, int, int]:
    """Left-corner form: a goal rule of a component reads a first part that is not left recursive, and
    then, each time a rule of the component is complete, goes on as any left call of it would.

    Every goal gets its own copy of the component's automata, because what completes it differs.
    """
    rows = edges[:n_edges].tolist()
    outgoing: dict[int, list[list[int]]] = {}
    for row in rows:
        outgoing.setdefault(row[0], []).append(row)
    for component in components:
        members = sorted(component)
        old = {rule: (int(begins[rule]), int(ends[rule])) for rule in members}
        states = {rule: _states_from(old[rule][0], old[rule][1], outgoing) for rule in members}
        new_begins: dict[int, int] = {}
        for goal in members:
            name: dict[tuple[int, int], int] = {}
            for rule in members:
                for state in states[rule]:
                    name[rule, state] = n_states
                    n_states += 1
            begin = new_begins[goal] = n_states
            n_states += 1
            if n_states > max_states:
                raise _too_large(max_states)
            for rule in members:
                for state in states[rule]:
                    for _, kind, a, b, target in outgoing.get(state, ()):
                        rows.append([name[rule, state], kind, a, b, name[rule, target]])
            corner, queue = {goal}, [goal]
            for rule in queue:  # the rules whose first part may start the goal
                for state in _without_bytes(old[rule][0], outgoing, nullable):
                    for _, kind, a, b, target in outgoing.get(state, ()):
                        if kind == 2 and a in component:
                            rows.append([name[a, old[a][1]], 0, 0, 0, name[rule, target]])
                            if a not in corner:
                                corner.add(a)
                                queue.append(a)
                        elif kind != 0:
                            # what follows a skipped call is already in the corner: mark it not to be skipped
                            rows.append([begin, kind, a, 1 if kind == 2 else b, name[rule, target]])
            new_begins[goal] = begin
            ends[goal] = name[goal, old[goal][1]]
        for rule in members:
            begins[rule] = new_begins[rule]
    table = np.array(rows, np.int64).reshape(-1, 5)
    return table, len(rows), n_states


def _states_from(begin: int, end: int, outgoing: dict[int, list[list[int]]]) -> list[int]:
    seen, queue = {begin}, [begin]
    for state in queue:
        for row in outgoing.get(state, ()):
            if row[4] not in seen:
                seen.add(row[4])
                queue.append(row[4])
    return queue if end in seen else [*queue, end]


def _without_bytes(
    begin: int, outgoing: dict[int, list[list[int]]], nullable: NDArray[np.uint8]
) -> list[int]:
    seen, queue = {begin}, [begin]
    for state in queue:
        for _, kind, a, _, target in outgoing.get(state, ()):
            if (kind == 0 or (kind == 2 and nullable[a])) and target not in seen:
                seen.add(target)
                queue.append(target)
    return queue


_UNIT_STATES = 64  # a unit of at most this many states is explored together with its counter


def _merge(
    automata: list[Any],
    counted: Integers,
    nullable: NDArray[np.uint8],
    root: int,
    n_rules: int,
    token_bytes: int,
) -> Network:
    """Merge equal states, then collect what may lie below each state, and the contexts."""
    rule_first, rule_last, final, edge_starts, edges, call_starts, calls = automata
    n_states = final.size
    rule_of_state = np.zeros(n_states, np.int64)
    for rule in np.flatnonzero(rule_first >= 0).tolist():
        rule_of_state[rule_first[rule] : rule_last[rule]] = rule
    caller = rule_of_state[np.repeat(np.arange(n_states), np.diff(call_starts))]
    callees: dict[int, set[int]] = {n_rules + i: {int(row[0])} for i, row in enumerate(counted)}
    for a, b in zip(caller.tolist(), calls[:, 0].tolist(), strict=True):
        callees.setdefault(a, set()).add(b)
    used_rules, queue = {root}, [root]
    for rule in queue:
        for callee in callees.get(rule, ()):
            if callee not in used_rules:
                used_rules.add(callee)
                queue.append(callee)
    rule_used = np.zeros(n_rules + len(counted), bool)
    rule_used[list(used_rules)] = True
    state_used = rule_used[rule_of_state]

    cls, n_classes, counted_cls, n_counted, _ = _kernels.minimise(
        state_used, rule_first, final, edge_starts, edges, call_starts, calls, counted, nullable
    )
    automaton = _kernels.quotient(
        cls, n_classes, counted_cls, n_counted, rule_first, final, edge_starts, edges, call_starts, calls,
        counted, nullable, token_bytes,
    )  # fmt: skip
    is_end = (final > 0) & (np.diff(edge_starts) == 0) & (np.diff(call_starts) == 0)

    below = _below_sets(
        used_rules, root, n_rules, counted, counted_cls, caller, calls, cls, is_end, rule_used
    )
    source_used = state_used[np.repeat(np.arange(n_states), np.diff(edge_starts))]
    tops = np.unique(edges[source_used, 2])
    returns = calls[:, 1][rule_used[caller]]
    tops = np.union1d(tops, returns)
    tops = tops[~is_end[tops]]
    keys = np.unique(cls[tops] * (n_rules + 1) + rule_of_state[tops])
    pairs = [(key // (n_rules + 1), key % (n_rules + 1)) for key in keys.tolist()]
    pairs.append((int(cls[rule_first[root]]), root))
    pairs += [(-1 - int(counted_cls[i]), n_rules + i) for i in range(len(counted)) if rule_used[n_rules + i]]
    return _contexts(automaton, pairs, below, rule_first, rule_last, n_rules, len(used_rules))


class _Below(NamedTuple):
    """Below sets: number of each rule's set, the distinct sets as (symbols, bottom)."""

    of_rule: dict[int, int]
    symbols: list[tuple[tuple[int, int], ...]]
    bottom: list[bool]


def _below_sets(
    used_rules: set[int],
    root: int,
    n_rules: int,
    counted: Integers,
    counted_cls: Integers,
    caller: Integers,
    calls: Integers,
    cls: Integers,
    is_end: NDArray[np.bool_],
    rule_used: NDArray[np.bool_],
) -> _Below:
    """What may lie below each rule: the return states of its calls; below a tail call, what lies below
    the caller; below the unit of a counted rule, its frame."""
    found: dict[int, set[tuple[int, int]]] = {rule: set() for rule in used_rules}
    bottom = {rule: rule == root for rule in used_rules}
    passed: dict[int, set[int]] = {}
    for rule, (callee, back) in zip(caller.tolist(), calls.tolist(), strict=True):
        if not rule_used[rule]:
            continue
        if is_end[back]:
            passed.setdefault(rule, set()).add(callee)
        else:
            found[callee].add((int(cls[back]), rule))
    for index, (unit, _, _) in enumerate(counted.tolist()):
        if rule_used[n_rules + index]:
            found[unit].add((-1 - int(counted_cls[index]), n_rules + index))
    queue = list(passed)
    while queue:
        rule = queue.pop()
        for callee in passed.get(rule, ()):
            size = len(found[callee])
            found[callee] |= found[rule]
            if len(found[callee]) > size or (bottom[rule] and not bottom[callee]):
                bottom[callee] = bottom[callee] or bottom[rule]
                queue.append(callee)
    # rules whose sets are equal share one, and sets that differ only in such rules become equal too
    number = {rule: rule for rule in used_rules}
    while True:
        keys: dict[Any, int] = {}
        renumbered = {}
        for rule in sorted(used_rules):
            key = (frozenset((symbol, number[below]) for symbol, below in found[rule]), bottom[rule])
            renumbered[rule] = keys.setdefault(key, len(keys))
        if len(keys) == len(set(number.values())):
            break
        number = renumbered
    number = renumbered
    symbols: list[tuple[tuple[int, int], ...]] = [()] * len(keys)
    bottoms = [False] * len(keys)
    for rule in used_rules:
        symbols[number[rule]] = tuple(sorted({(symbol, number[below]) for symbol, below in found[rule]}))
        bottoms[number[rule]] = bottom[rule]
    return _Below(number, symbols, bottoms)


def _contexts(
    automaton: tuple[Any, ...],
    pairs: list[tuple[int, int]],
    below: _Below,
    rule_first: Integers,
    rule_last: Integers,
    n_rules: int,
    n_used: int,
) -> Network:
    """The tops to explore: each with its below sets; a small unit of a counted rule with its counter."""
    symbols, bottom = list(below.symbols), list(below.bottom)
    known = {(entry, flag): index for index, (entry, flag) in enumerate(zip(symbols, bottom, strict=True))}
    contexts: dict[tuple[int, int], dict[int, None]] = {}
    for symbol, rule in pairs:
        own = below.of_rule[rule]
        frames = [entry for entry in below.symbols[own] if entry[0] < 0]
        small = rule < n_rules and rule_last[rule] - rule_first[rule] <= _UNIT_STATES
        if frames and small:
            for frame, below_frame in frames:
                contexts.setdefault((symbol, -1 - frame), {})[below_frame] = None
            rest = tuple(entry for entry in below.symbols[own] if entry[0] >= 0)
            if not rest and not below.bottom[own]:
                continue
            own = known.setdefault((rest, below.bottom[own]), len(symbols))
            if own == len(symbols):
                symbols.append(rest)
                bottom.append(below.bottom[below.of_rule[rule]])
        contexts.setdefault((symbol, -1), {})[own] = None
    rows = np.array(list(contexts), np.int64).reshape(-1, 2)
    context_starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(sets) for sets in contexts.values()], out=context_starts[1:])
    context_below = np.array([entry for sets in contexts.values() for entry in sets], np.int64)
    below_starts = np.zeros(len(symbols) + 1, np.int64)
    np.cumsum([len(entry) for entry in symbols], out=below_starts[1:])
    flat = np.array([pair for entry in symbols for pair in entry], np.int64).reshape(-1, 2)
    return Network(
        automaton, rows, context_starts, context_below, below_starts, flat[:, 0].copy(), flat[:, 1].copy(),
        np.array(bottom, bool), n_used,
    )  # fmt: skip
