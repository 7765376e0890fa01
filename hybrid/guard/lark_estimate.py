"""The size of a Lark grammar once Lark writes it out, counted before Lark runs.

What: `estimate` counts what the rules expand to: their alternatives, with optional parts, groups and
repeats multiplied out as Lark does it, and the instances of templates. `pattern_characters` adds up the
lengths of the regular expressions of terminals, which contain those of the terminals that they use.
When: by `hybrid.guard.lark_construction.read`, before each of the two steps of Lark that multiply. Neither
can be interrupted.
Limits: these are upper bounds, because equal alternatives are counted separately. Later costs are not
predicted: a parser with far more states than the grammar has symbols, rules of hundreds of alternatives
that end in themselves (cubic time), and regular expressions that backtrack. Lark therefore runs in a
process that can be killed (`hybrid.guard`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from lark import Tree
from lark.load_grammar import REPEAT_BREAK_THRESHOLD, SMALL_FACTOR_THRESHOLD, Grammar
from lark.utils import small_factors

from equivalence.errors import BudgetExceeded

MOST_SYMBOLS = 100_000
"""Real grammars have up to 11,000. Lark takes 25 to 90 us of processor time for each: 2.5 s for the 28,700 of
12 optional rules in a row, 2.0 s for the 83,700 of a group repeated up to 8 times."""

MOST_ACTIONS = 5_000_000
"""Real grammars have up to 70,000. Lark took 5.4 s and 380 MiB for 3 million (a thousand kinds of
statements), 39 s and 3.6 GiB for 27 million."""

MOST_TEMPLATES = 10_000
MOST_CHARACTERS = 1 << 20

LONGEST_IMPORTED = 256
"""An upper bound of the characters of a terminal in Lark's own library."""

MOST = 10**12
"""Counting stops here; greater numbers make no difference."""


class Estimate(NamedTuple):
    """Upper bounds of what the rules of a grammar expand to.

    Attributes:
        alternatives: of all rules, including the rules that repeats and templates make.
        symbols: the symbols in these alternatives, plus one for each alternative.
        actions: alternatives times terminals, because an alternative may end before each terminal. This is
            the largest part of a parse table, which has about as many states as there are symbols.
        templates: instances of templates with different arguments.
        names: characters in the names of the instances, which Lark writes out with all their arguments.
    """

    alternatives: int
    symbols: int
    actions: int
    templates: int
    names: int


class _Size(NamedTuple):
    """The number of alternatives of a part when multiplied out, of symbols in all of them, and in the
    longest."""

    alternatives: int
    symbols: int
    longest: int


_ONE = _Size(1, 1, 1)
_NOTHING = _Size(1, 0, 0)
_NO_RULE = _Size(0, 0, 0)


def refuse_large_terminals(statements: Any) -> None:
    """Refuse terminals that Lark would expand to more than `MOST_CHARACTERS`.

    Args:
        statements: the tree of a grammar's text, from Lark's own parser of grammars.

    Raises:
        BudgetExceeded: the message says how many.
    """
    way = "terminals are copied into the terminals that use them, so use fewer in each"
    _refuse(pattern_characters(statements), MOST_CHARACTERS, "characters in its terminals' patterns", way)


def refuse_large_rules(grammar: Grammar) -> None:
    """Refuse rules that would take Lark more than ten seconds, or a GiB, to expand and number.

    Args:
        grammar: the result of `lark.load_grammar.load_grammar`.

    Raises:
        BudgetExceeded: one of the limits above is exceeded; the message says by how much.
    """
    found = estimate(grammar)
    _refuse(found.templates, MOST_TEMPLATES, "instances of templates", "use them with fewer arguments")
    _refuse(found.names, MOST_CHARACTERS, "characters in names of templates", "nest their arguments less")
    way = "optional parts and groups in a row multiply; move them into rules of their own"
    _refuse(found.symbols, MOST_SYMBOLS, "symbols in all alternatives of its rules", way)
    way = "let alternatives that are alike share a rule"
    _refuse(found.actions, MOST_ACTIONS, "pairs of an alternative and a terminal that may follow", way)


def _refuse(number: int, most: int, what: str, way: str) -> None:
    if number > most:
        count = f"{number:,}" if number < MOST else f"{MOST:,} or more"
        raise BudgetExceeded(
            f"Lark would expand the grammar to {count} {what}, but the limit is {most:,}; {way}"
        )


def estimate(grammar: Grammar) -> Estimate:
    """Compute what the rules expand to, in time proportional to the size of the grammar and to the number of
    instances. Instances beyond the limits are not searched for.
    """
    plain = [tree for _, params, tree, _ in grammar.rule_defs if not params]
    templates = _Templates({name: (params, tree) for name, params, tree, _ in grammar.rule_defs if params})
    literals: set[tuple[str, ...]] = set()
    for tree in plain:
        templates.use(tree)
    for _, _, tree, _ in grammar.rule_defs:
        _folded(tree, partial(_add_literal, literals))
    whole = _sum([*map(_rule_size, plain), templates.size])
    return Estimate(
        whole.alternatives,
        min(whole.alternatives + whole.symbols, MOST),
        min(whole.alternatives * (len(grammar.term_defs) + len(literals)), MOST),
        templates.instances,
        templates.characters,
    )


# --- Rules -------------------------------------------------------------------------------------------------


def _rule_size(tree: Any) -> _Size:
    """The size of a rule, including the rules that its repeats make."""
    more: list[_Size] = []
    whole = _folded(tree, lambda node, parts: _part_size(node, parts, more))
    return _sum([whole, *more])


def _part_size(node: Any, parts: list[_Size], more: list[_Size]) -> _Size:
    """The size of a part of a rule. The sizes of rules that Lark makes for it are appended to `more`."""
    kind = node.data
    if kind == "expansions":
        return _sum(parts)
    if kind == "expansion":
        return _product(parts)
    if kind == "alias":
        return parts[0]
    if kind == "maybe":  # its empty alternative has a marker for each missing symbol
        return _sum([parts[0], _Size(1, parts[0].longest, 0)])
    if kind != "expr":
        return _ONE  # a symbol, a literal or a template, whatever it contains
    inner, operator = parts[0], str(node.children[1])
    if operator == "?":
        return _sum([inner, _NOTHING])
    if operator in ("+", "*"):
        more.append(_sum([inner, _product([_ONE, inner])]))
        return _ONE if operator == "+" else _sum([_ONE, _NOTHING])
    found, rules = _repeated(inner, int(node.children[2]), int(node.children[-1]))
    more.append(rules)
    return found


@lru_cache(maxsize=1024)
def _repeated(inner: _Size, least: int, most: int) -> tuple[_Size, _Size]:
    """The sizes of a repeat in its place and in the rules that Lark makes for it. Lark writes out all
    counts, or makes rules for their factors (`lark.load_grammar.EBNF_to_BNF`).
    """
    if most < least or least < 0:
        return _ONE, _NO_RULE  # Lark refuses it
    if most < REPEAT_BREAK_THRESHOLD:
        return _sum(_powers(inner, most)[least:]), _NO_RULE
    rules = []
    target = inner
    for factor, rest in small_factors(least, SMALL_FACTOR_THRESHOLD):
        rules.append(_product([_powers(target, factor)[-1], _powers(inner, rest)[-1]]))
        target = _ONE
    if most == least:
        return target, _sum(rules)
    several, optional = inner, _NOTHING
    for factor, rest in small_factors(most - least + 1, SMALL_FACTOR_THRESHOLD):
        powers, more = _powers(several, factor), _powers(inner, rest)
        rules += [_product([power, optional]) for power in powers[:-1]]
        rules += [_product([powers[-1], power]) for power in more]
        several, optional = _ONE, _ONE
    return _product([target, optional]), _sum(rules)


def _capped(alternatives: int, symbols: int, longest: int) -> _Size:
    return _Size(min(alternatives, MOST), min(symbols, MOST), min(longest, MOST))


def _sum(parts: list[_Size]) -> _Size:
    return _capped(
        sum(part.alternatives for part in parts),
        sum(part.symbols for part in parts),
        max((part.longest for part in parts), default=0),
    )


def _product(parts: list[_Size]) -> _Size:
    """The size of parts in a row: every combination of their alternatives."""
    found = _NOTHING
    for alternatives, symbols, longest in parts:
        found = _capped(
            found.alternatives * alternatives,
            found.symbols * alternatives + symbols * found.alternatives,
            found.longest + longest,
        )
    return found


def _powers(part: _Size, most: int) -> list[_Size]:
    """The sizes of a part repeated 0 times, once, and so on."""
    found = [_NOTHING]
    for _ in range(most):
        found.append(_product([found[-1], part]))
    return found


# --- Templates ---------------------------------------------------------------------------------------------


class _Templates:
    """The template instances that rules use, and those that these use in turn.

    Attributes:
        instances: their number; instances beyond the limits are not searched for.
        size: the size of all their bodies, which Lark copies first.
        characters: the number of characters in their names.
    """

    def __init__(self, templates: dict[str, tuple[Any, Any]]) -> None:
        self._templates = templates
        self._copies: dict[str, _Size] = {}
        self._names: dict[tuple[str, ...], str] = {}
        self._lengths: dict[str, int] = {}
        self._waiting: list[tuple[Any, dict[str, str]]] = []
        self.size = _NO_RULE
        self.characters = 0

    @property
    def instances(self) -> int:
        return len(self._names)

    def use(self, tree: Any) -> None:
        """Count the instances that a rule uses."""
        self._waiting.append((tree, {}))
        while (
            self._waiting
            and self.instances <= MOST_TEMPLATES
            and self.size.symbols <= MOST_SYMBOLS
            and self.characters <= MOST_CHARACTERS
        ):
            body, names = self._waiting.pop()
            _folded(body, partial(self._named, names))

    def _named(self, names: dict[str, str], node: Any, parts: list[str]) -> str:
        """The name of a part as an argument of a template."""
        kind = node.data
        if kind == "value":
            child = node.children[0]
            return parts[0] if parts else names.get(child.name, child.name)
        if kind in ("literal", "range"):
            return "..".join(node.children)
        if kind != "template_usage":
            return ""
        name = node.children[0].name
        return self._instance(names.get(name, name), parts)

    def _instance(self, name: str, arguments: list[str]) -> str:
        """A short name for an instance. Lark's name may repeat an argument, and so grow exponentially."""
        if name not in self._templates:
            return ""
        key = (name, *arguments)
        if key not in self._names:
            self._names[key] = short = f"#{len(self._names)}"
            length = sum(self._lengths.get(part, len(part)) + 1 for part in key) + 1
            self._lengths[short] = min(length, MOST)
            self.characters = min(self.characters + length, MOST)
            params, body = self._templates[name]
            if name not in self._copies:
                written = _rule_size(body)
                self._copies[name] = _sum([written, _Size(0, _number_of_nodes(body), 0)])
            self.size = _sum([self.size, self._copies[name]])
            self._waiting.append((body, dict(zip(params, arguments, strict=False))))
        return self._names[key]


# --- Terminals ---------------------------------------------------------------------------------------------


def pattern_characters(statements: Any) -> int:
    """Characters of the patterns of all terminals. A terminal inside another counts again there.

    Terminals that are imported from Lark's own library count, as `LONGEST_IMPORTED`, where others use them.
    """
    definitions: dict[str, list[Any]] = {}
    for place, statement in enumerate(statements.children):
        if statement.data in ("override", "extend"):
            statement = statement.children[0]
        if statement.data in ("term", "ignore"):
            name = str(statement.children[0]) if statement.data == "term" else f"%ignore {place}"
            definitions.setdefault(name, []).append(statement.children[-1])
    known: dict[str, int] = {}
    waiting = list(definitions)
    begun: set[str] = set()
    while waiting:
        name = waiting[-1]
        missing: list[str] = []
        if name not in begun:  # a terminal inside itself counts as an imported one: Lark refuses it
            begun.add(name)
            for tree in definitions[name]:
                _folded(tree, partial(_add_used, missing))
            missing = [one for one in missing if one in definitions and one not in begun]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if name not in known:
            lengths = [_folded(tree, partial(_pattern_length, known)) for tree in definitions[name]]
            known[name] = min(sum(lengths), MOST)
    return min(sum(known.values()), MOST)


def _add_used(found: list[str], node: Any, parts: list[Any]) -> None:
    """Record a terminal that is used."""
    if node.data == "value" and not parts:
        found.append(node.children[0].name)


def _pattern_length(known: dict[str, int], node: Any, parts: list[int]) -> int:
    """What `lark.load_grammar.TerminalTreeToPattern` writes around the parts, plus the parts."""
    kind = node.data
    if kind == "value" and not parts:
        return known.get(node.children[0].name, LONGEST_IMPORTED)
    if kind in ("literal", "range"):
        return 2 * sum(map(len, node.children))  # each character may need an escape
    more = 0
    if kind == "expansions":
        more = 3 + len(parts) if len(parts) > 1 else 0
    elif kind == "maybe":
        more = 5
    elif kind == "expr":
        more = 6 + sum(len(bound) for bound in node.children[2:])
    return min(sum(parts) + more, MOST)


def _add_literal(found: set[tuple[str, ...]], node: Any, parts: list[Any]) -> None:
    """Record a terminal without a name of its own, as (text,), or as (first, last) for a range."""
    if node.data in ("literal", "range"):
        found.add(tuple(node.children))


# --- Trees -------------------------------------------------------------------------------------------------


def _number_of_nodes(tree: Any) -> int:
    return int(_folded(tree, lambda _, parts: sum(parts) + 1))


def _folded(tree: Any, fold: Callable[[Any, list[Any]], Any]) -> Any:
    """Compute a value for a tree from the values of its subtrees; shared subtrees are computed once.

    It does not recurse, because trees may be deep.

    Args:
        tree: the tree.
        fold: computes the value of a node from the values of its children that are not leaves.
    """
    known: dict[int, Any] = {}
    waiting = [tree]
    while waiting:
        node = waiting[-1]
        subtrees = [child for child in node.children if isinstance(child, Tree)]
        missing = [child for child in subtrees if id(child) not in known]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if id(node) not in known:
            known[id(node)] = fold(node, [known[id(child)] for child in subtrees])
    return known[id(tree)]
