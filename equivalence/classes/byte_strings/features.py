"""What a grammar asks of a token besides its bytes: ids, counts, laziness, hidden markers.

What: `find_features` names such constructs of a serialised grammar; `renumber_tokens` writes other ids in.
When: before classes are computed, and before a grammar is compiled over another vocabulary.
Limits: reads the layout of XGrammar 0.2.8 (see `equivalence.network.build`); works on the form that
`xgrammar.Grammar.serialize_json` gives, parsed by `json.loads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

TOKEN, EXCLUDE, DISPATCH = 9, 10, 11
"""Expression types: [id, ...]; [id, ...]; [n, n times (id, rule), loop, m, m times id]."""


class Features(NamedTuple):
    """Constructs that a stack of states alone does not decide; only what the root reaches counts.

    Attributes:
        named: the ids that the grammar names, ascending (those of unreachable rules too).
        edges: an edge reads one of some ids, whatever their bytes.
        exclusions: an edge reads every id but some (token tag dispatch has such edges too).
        max_tokens, max_chars, lazy: a rule with this attribute.
        markers: suffix or stop markers are recorded.
        captures: a rule's text is captured (this alone does not matter to masks).
    """

    named: tuple[int, ...]
    edges: bool
    exclusions: bool
    max_tokens: bool
    max_chars: bool
    lazy: bool
    markers: bool
    captures: bool

    @property
    def beyond_stacks(self) -> bool:
        """Whether acceptance depends on more than bytes and stacks."""
        return any(self[1:-1])

    @property
    def only_edges(self) -> bool:
        """Whether of all that goes beyond stacks there are only edges that read ids."""
        return self.edges and sum(self[1:-1]) == 1

    @property
    def cut_matters(self) -> bool:
        """Whether an engine must be advanced by tokens: text alone would not do for any id.

        At the end of a budget of characters XGrammar's `accept_token` ends a rule without its marker, and
        its `accept_string` does not.
        """
        return self.exclusions or self.max_tokens or (self.max_chars and self.markers)

    def __str__(self) -> str:
        names = ("token edges", "excluded tokens", "max_tokens", "max_chars", "lazy rules", "markers")
        return ", ".join(name for name, found in zip(names, self[1:-1], strict=True) if found)


PLAIN = Features((), False, False, False, False, False, False, False)
"""A grammar of bytes and stacks only."""


def is_plain(serialized: dict[str, Any], kinds: set[int]) -> bool:
    """Whether no rule, reachable or not, has such a construct, given the types of all expressions."""
    return (
        kinds.isdisjoint((TOKEN, EXCLUDE, DISPATCH))
        and not serialized.get("suffix_stop_infos")
        and not any(rule[4] >= 0 or rule[5] >= 0 or rule[6] or rule[7] for rule in serialized["rules"])
    )


def find_features(serialized: dict[str, Any]) -> Features:
    """The constructs beyond bytes and stacks of a serialised grammar."""
    data, starts, rules = (
        serialized["grammar_expr_data"],
        serialized["grammar_expr_indptr"],
        serialized["rules"],
    )
    if is_plain(serialized, {data[at] for at in starts}):
        return PLAIN
    markers = bool(serialized.get("suffix_stop_infos"))
    reached_rules, reached_kinds = _reach(serialized)
    chosen = [rules[number] for number in reached_rules]
    named: set[int] = set()

    def note(token_id: int) -> int:
        named.add(token_id)
        return token_id

    _each_id(serialized, note)
    return Features(
        named=tuple(sorted(named)),
        edges=not reached_kinds.isdisjoint((TOKEN, DISPATCH)),
        exclusions=not reached_kinds.isdisjoint((EXCLUDE, DISPATCH)),
        max_tokens=any(rule[4] >= 0 for rule in chosen),
        max_chars=any(rule[5] >= 0 for rule in chosen),
        lazy=any(rule[7] for rule in chosen),
        markers=markers,
        captures=any(rule[6] for rule in chosen) or any(info[5] for info in serialized["suffix_stop_infos"]),
    )


def renumber_tokens(serialized: dict[str, Any], number: Callable[[int], int]) -> dict[str, Any]:
    """A copy of the grammar in which each named id ``i`` is ``number(i)``.

    Ids keep their places in dispatches; in other lists they are sorted, as XGrammar searches them by
    bisection. Different ids may get the same number only where a list may hold it twice.
    """
    changed = dict(serialized)
    changed["grammar_expr_data"] = list(serialized["grammar_expr_data"])
    _each_id(changed, number)
    data = changed["grammar_expr_data"]
    for at in changed["grammar_expr_indptr"]:
        if data[at] in (TOKEN, EXCLUDE):
            end = at + 2 + data[at + 1]
            data[at + 2 : end] = sorted(data[at + 2 : end])
    return changed


def _each_id(serialized: dict[str, Any], number: Callable[[int], Any]) -> None:
    """Replace every named id by what `number` gives for it, in place."""
    data = serialized["grammar_expr_data"]
    for at in serialized["grammar_expr_indptr"]:
        if data[at] in (TOKEN, EXCLUDE):
            places = range(at + 2, at + 2 + data[at + 1])
        elif data[at] == DISPATCH:
            triggers, end = data[at + 2], at + 2 + data[at + 1]
            first_excluded = at + 3 + 2 * triggers + 2
            places = [*range(at + 3, at + 3 + 2 * triggers, 2), *range(first_excluded, end)]  # type: ignore[assignment]
        else:
            continue
        for place in places:
            data[place] = number(data[place])


def _reach(serialized: dict[str, Any]) -> tuple[set[int], set[int]]:
    """The rules that the root reaches, and the types of their expressions."""
    data, starts = serialized["grammar_expr_data"], serialized["grammar_expr_indptr"]
    rules = serialized["rules"]
    root = serialized["root_rule_id"]
    seen, kinds = {root}, set()
    pending = [rules[root][1]]
    while pending:
        at = starts[pending.pop()]
        kind, length = data[at], data[at + 1]
        body = data[at + 2 : at + 2 + length]
        kinds.add(kind)
        callees: list[int] = []
        if kind in (5, 6):
            pending += body
        elif kind in (4, 8):
            callees = body[:1]
        elif kind == 7:
            callees = body[1:-2:2]
        elif kind == DISPATCH:
            callees = body[2 : 2 + 2 * body[0] : 2]
        for callee in callees:
            if callee not in seen:
                seen.add(callee)
                pending.append(rules[callee][1])
    return seen, kinds
