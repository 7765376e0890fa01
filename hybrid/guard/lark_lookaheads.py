"""The look-aheads of a Lark grammar's LALR(1) parser, computed faster than Lark does.

What: `Parser` is Lark's LALR parser whose table is made by `Analyzer`. It replaces two steps of Lark's
analysis; they give the same sets, without comparing symbols and rules in Python code.
When: by `hybrid.guard.lark_construction`, as a plugin of Lark. It halves the time that Lark takes for a
programming language.
Limits: the states, the relation "reads", and the choice between shifts and reductions are Lark's own.

Lark passes over all items of a state once for each nonterminal, and adds each terminal to the sets of all
transitions. Here the items are grouped by their rules' origins, transitions are numbers, and sets of
terminals are integers with a bit for each of them.

Source: DeRemer and Pennello, Efficient computation of LALR(1) look-ahead sets (1982). The names are theirs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lark.parsers.lalr_analysis import LALR_Analyzer
from lark.parsers.lalr_parser import LALR_Parser


class Analyzer(LALR_Analyzer):
    """Lark's analysis with other steps in place of the slow ones."""

    def compute_includes_lookback(self) -> None:
        """Do nothing: `compute_lookaheads` finds these relations, too."""

    def compute_lookaheads(self) -> None:
        """Find the terminals before which each state reduces each rule."""
        number = {(state, symbol.name): n for n, (state, symbol) in enumerate(self.nonterminal_transitions)}
        includes, lookback = self._relations(number)
        symbols: dict[str, tuple[int, Any]] = {}
        sets = [0] * len(number)
        for (state, symbol), terminals in self.directly_reads.items():
            n = number.get((state, symbol.name))
            if n is not None:
                for terminal in terminals:
                    bit, _ = symbols.setdefault(terminal.name, (1 << len(symbols), terminal))
                    sets[n] |= bit
        reads: list[list[int]] = [[] for _ in number]
        for (state, symbol), others in self.reads.items():
            reads[number[state, symbol.name]] = [number[other, one.name] for other, one in others]
        close(sets, reads)
        close(sets, includes)
        for (state, _), (rule, transitions) in lookback.items():
            found = 0
            for n in transitions:
                found |= sets[n]
            for bit, terminal in symbols.values():
                if found & bit:
                    state.lookaheads[terminal].add(rule)

    def _relations(
        self, number: dict[tuple[Any, str], int]
    ) -> tuple[list[list[int]], dict[tuple[Any, int], tuple[Any, list[int]]]]:
        """Return the relation "includes", and for each state and rule that may be reduced there the rule and
        the transitions in "lookback".

        Like Lark, this also follows the items of a state's kernel from where they are.

        Args:
            number: the number of each transition, by its state and the name of its nonterminal.
        """
        nullable = {symbol.name for symbol in self.NULLABLE}
        includes: list[list[int]] = [[] for _ in number]
        lookback: dict[tuple[Any, int], tuple[Any, list[int]]] = {}
        targets: dict[Any, dict[str, Any]] = {}
        items: dict[Any, dict[str, list[Any]]] = {}
        for state in self.lr0_itemsets:
            targets[state] = {symbol.name: target for symbol, target in state.transitions.items()}
            items[state] = by_origin = defaultdict(list)
            for item in state.closure:
                by_origin[item.rule.origin.name].append(item)
        names: dict[int, list[str]] = {}
        for (start, nonterminal), n in number.items():
            for item in items[start].get(nonterminal, ()):
                rule, state = item.rule, start
                expansion = names.get(id(rule))
                if expansion is None:
                    expansion = names[id(rule)] = [symbol.name for symbol in rule.expansion]
                tail = len(expansion) - 1  # from here on, only what may be empty follows
                while tail > 0 and expansion[tail] in nullable:
                    tail -= 1
                for i in range(item.index, len(expansion)):
                    other = number.get((state, expansion[i])) if i >= tail else None
                    if other is not None:
                        includes[other].append(n)
                    state = targets[state][expansion[i]]
                if item.index == 0:
                    lookback.setdefault((state, id(rule)), (rule, []))[1].append(n)
        return includes, lookback


def close(sets: list[int], relation: list[list[int]]) -> None:
    """Add to each set, in place, those of all that can be reached from it along a relation.

    What reaches each other has the same set (Tarjan's strongly connected components).
    """
    low = [0] * len(sets)  # the lowest place on the stack that is reached; 0: not visited; -1: complete
    stack: list[int] = []
    for root in range(len(sets)):
        if low[root]:
            continue
        stack.append(root)
        low[root] = 1
        calls = [(root, iter(relation[root]), 1)]
        while calls:
            node, others, place = calls[-1]
            for other in others:
                if not low[other]:
                    stack.append(other)
                    low[other] = len(stack)
                    calls.append((other, iter(relation[other]), len(stack)))
                    break
                sets[node] |= sets[other]
                if 0 < low[other] < low[node]:
                    low[node] = low[other]
            else:
                calls.pop()
                if low[node] == place:
                    for one in stack[place - 1 :]:
                        low[one], sets[one] = -1, sets[node]
                    del stack[place - 1 :]
                if calls:
                    caller = calls[-1][0]
                    sets[caller] |= sets[node]
                    if 0 < low[node] < low[caller]:
                        low[caller] = low[node]


class Parser(LALR_Parser):
    """Lark's parser with the table of `Analyzer`. It has only the table, and cannot parse."""

    def __init__(self, parser_conf: Any, debug: bool = False, strict: bool = False) -> None:
        analyzer = Analyzer(parser_conf, debug=debug, strict=strict)
        analyzer.compute_lalr()  # type: ignore[no-untyped-call]
        self._parse_table = analyzer.parse_table
