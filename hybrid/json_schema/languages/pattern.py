"""From patterns to automata, by derivatives.

What: `pattern` gives the automaton of all texts in which a pattern of ECMA-262 matches somewhere. A state
is a regular expression for the rest of the text; its derivative by a character is the next state
(Brzozowski: Derivatives of Regular Expressions, 1964; Owens, Reppy, Turon: Regular-expression Derivatives
Re-examined, 2009). Intersection and complement are operators, so a look-ahead is the intersection of its
own pattern with everything that follows it.
When: for each new pattern; results are cached.
Limits: if more states are needed than the bound, `TooLarge` is raised. A repetition {m,n} is one
expression, but costs n states.

Terms are tuples, numbered by content in `_Terms`; `|` and `&` are sets of terms. Assertions are resolved
when a tree is turned into a term (`_Builder`), because the builder knows what follows each part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hybrid.json_schema.languages.automaton import LAST, Automaton, minimal
from hybrid.json_schema.languages.syntax import (
    WORD,
    InvalidPattern,
    Ranges,
    Tree,
    Unsupported,
    others,
    parse,
)
from hybrid.json_schema.languages.until import TooLarge, look

__all__ = ["InvalidPattern", "Unsupported", "pattern"]

Term = int
"""The number of a term."""

NOTHING, EMPTY, ALL = 0, 1, 2
"""The terms of: no text; only the empty text; all texts."""


@lru_cache(maxsize=2048)
def pattern(source: str, bound: int) -> Automaton:
    """The texts in which a pattern matches somewhere.

    Raises:
        Unsupported, InvalidPattern: it cannot be read.
        TooLarge: it needs more states than the bound.
    """
    try:
        tree = parse(source)
        terms = _Terms()
        builder = _Builder(terms)
        first = builder.term(tree, ALL, "start")
        return _automaton(terms, terms.either((first, _later(builder, tree))), bound)
    except RecursionError as error:
        raise Unsupported("groups nested too deeply") from error


def _later(builder: _Builder, tree: Tree) -> Term:
    """Texts in which a tree matches after at least one character."""
    terms = builder.terms
    if not _asks_for(tree, ("boundary",)):
        return terms.cat(terms.some(), builder.term(tree, ALL, "within"))
    found = [
        terms.cat(terms.chars(ranges), builder.term(tree, ALL, before))
        for before, ranges in (("word", WORD), ("other", others(WORD)))
    ]
    return terms.cat(ALL, terms.either(tuple(found)))


def _automaton(terms: _Terms, start: Term, bound: int) -> Automaton:
    """Make the automaton by exploring the derivatives of a term."""
    numbers, states = {start: 0}, [start]
    rows: list[list[tuple[int, int, int]]] = []
    for term in states:
        look()
        told_apart = terms.first(term)
        after_class: dict[int, int] = {}  # -1: nothing may follow
        row: list[tuple[int, int, int]] = []
        begin, target = 0, -1
        for low, members in terms.intervals():
            of_class = members & told_apart
            number = after_class.get(of_class)
            if number is None:
                after = terms.derivative(term, members)
                number = numbers.setdefault(after, len(states)) if after != NOTHING else -1
                after_class[of_class] = number
                if number == len(states):
                    states.append(after)
                    if number >= bound:
                        raise TooLarge(bound)
            if number != target:
                if target >= 0:
                    row.append((begin, low - 1, target))
                begin, target = low, number
        if target >= 0:
            row.append((begin, LAST, target))
        rows.append(row)
    return minimal(rows, [terms.nullable(term) for term in states])


def _asks_for(tree: Tree, kinds: tuple[str, ...]) -> bool:
    """Whether a tree contains an assertion of some kinds."""
    if tree[0] in kinds:
        return True
    if tree[0] in ("cat", "or"):
        return any(_asks_for(part, kinds) for part in tree[1])
    return tree[0] in ("repeat", "look") and _asks_for(tree[1], kinds)


_ASSERTIONS = ("start", "end", "boundary", "look")


class _Builder:
    """Turns trees into terms.

    `before` says what comes before a part: "start" (nothing), "word" or "other" (a character of that kind),
    or "within" (some character, if nobody needs to know which).
    """

    def __init__(self, terms: _Terms) -> None:
        self.terms = terms

    def term(self, tree: Tree, then: Term, before: str) -> Term:
        """The texts of a tree followed by texts of a term."""
        kind, terms = tree[0], self.terms
        if not _asks_for(tree, _ASSERTIONS):
            return terms.cat(self.plain(tree), then)
        if kind == "cat":
            return self._cat(tree[1], then, before)
        if kind == "or":
            return terms.either(tuple(self.term(part, then, before) for part in tree[1]))
        if kind == "start":
            return then if before == "start" else NOTHING
        if kind == "end":
            return EMPTY if terms.nullable(then) else NOTHING
        if kind == "boundary":
            return self._boundary(tree[1], then, before)
        if kind == "look":
            asked = self.term(tree[1], ALL, before)
            return terms.both((terms.other(asked) if tree[2] else asked, then))
        return self._repeat(tree, then, before)

    def plain(self, tree: Tree) -> Term:
        """The texts of a tree without assertions."""
        kind, terms = tree[0], self.terms
        if kind == "chars":
            return terms.chars(tree[1])
        if kind == "cat":
            found = EMPTY
            for part in reversed(tree[1]):
                found = terms.cat(self.plain(part), found)
            return found
        if kind == "or":
            return terms.either(tuple(map(self.plain, tree[1])))
        return terms.repeat(self.plain(tree[1]), tree[2], tree[3])

    def _cat(self, parts: tuple[Tree, ...], then: Term, before: str) -> Term:
        if not parts:
            return then
        first, rest = parts[0], parts[1:]
        following: Tree = ("cat", rest)
        if not _asks_for(following, ("start", "boundary")):
            return self.term(first, self._cat(rest, then, "within"), before)
        if first[0] in ("start", "end", "boundary", "look"):
            return self.term(first, self._cat(rest, then, before), before)
        if _asks_for(first, _ASSERTIONS):
            if _asks_for(following, ("boundary",)):
                raise Unsupported("\\b after a group with assertions")
            return self.terms.either(
                (self.term(first, self._cat(rest, then, "within"), before), self._cat(rest, then, before))
                if _may_be_empty(first)
                else (self.term(first, self._cat(rest, then, "within"), before),)
            )
        return self._behind(self.plain(first), rest, then, before)

    def _behind(self, first: Term, rest: tuple[Tree, ...], then: Term, before: str) -> Term:
        """Parts that depend on what comes before them, after a part that does not."""
        terms = self.terms
        found = [self._cat(rest, then, before)] if terms.nullable(first) else []
        if _asks_for(("cat", rest), ("boundary",)):
            for kind, ranges in (("word", WORD), ("other", others(WORD))):
                ends = terms.both((first, terms.cat(ALL, terms.chars(ranges))))
                found.append(terms.cat(ends, self._cat(rest, then, kind)))
        else:
            found.append(terms.cat(first, self._cat(rest, then, "within")))
        return terms.either(tuple(found))

    def _boundary(self, negated: bool, then: Term, before: str) -> Term:
        terms = self.terms
        if before == "within":
            raise Unsupported("\\b after a group with assertions")
        word = terms.cat(terms.chars(WORD), ALL)
        asked = terms.other(word) if (before == "word") != negated else word
        return terms.both((asked, then))

    def _repeat(self, tree: Tree, then: Term, before: str) -> Term:
        """A repetition of a part with assertions."""
        _, part, least, most = tree
        if _asks_for(part, ("start", "boundary")):
            raise Unsupported("an anchor inside a repeat")
        if most is None and _may_be_empty(part):
            raise Unsupported("look-ahead inside a repeat that may be empty")
        if most is None:
            found = self.terms.loop(self, part, then)
        else:
            found = then
            for _ in range(most - least):
                found = self.terms.either((then, self.term(part, found, "within")))
        for _ in range(least):
            found = self.term(part, found, "within")
        return found


def _may_be_empty(tree: Tree) -> bool:
    """Whether a tree may match the empty text and may be followed by something."""
    kind = tree[0]
    if kind == "cat":
        return all(map(_may_be_empty, tree[1]))
    if kind == "or":
        return any(map(_may_be_empty, tree[1]))
    if kind == "repeat":
        return tree[2] == 0 or _may_be_empty(tree[1])
    return kind not in ("chars", "end")


class _Terms:
    """The terms of one pattern: ("chars", ranges), ("cat", a, b), ("star", a), ("repeat", a, m, n), ("or",
    {...}), ("and", {...}), ("not", a), ("loop", number)."""

    def __init__(self) -> None:
        self._all: list[tuple[Any, ...]] = [("nothing",), ("empty",), ("all",)]
        self._numbers: dict[Any, Term] = {term: i for i, term in enumerate(self._all)}
        self._nullable = [False, True, True]
        self._sets: dict[Term, int] = {}  # for each term of characters, its bit
        self._first: dict[Term, int] = {NOTHING: 0, EMPTY: 0, ALL: 0}
        self._intervals: list[tuple[int, int]] = [(0, 0)]
        self._n_intervals_of = 0
        self._derivatives: dict[tuple[Term, int], Term] = {}
        self._loops: list[tuple[_Builder, Tree, Term]] = []
        self._unfolded: dict[int, Term] = {}

    def _of(self, *term: Any) -> Term:
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self._all)
            self._all.append(term)
            self._nullable.append(self._is_nullable(term))
        return number

    def _is_nullable(self, term: tuple[Any, ...]) -> bool:
        kind = term[0]
        if kind == "cat":
            return self._nullable[term[1]] and self._nullable[term[2]]
        if kind == "repeat":
            return term[2] == 0 or self._nullable[term[1]]
        if kind == "or":
            return any(self._nullable[one] for one in term[1])
        if kind == "and":
            return all(self._nullable[one] for one in term[1])
        if kind == "not":
            return not self._nullable[term[1]]
        if kind == "loop":
            return self._nullable[self._loops[term[1]][2]]
        return kind == "star"

    def nullable(self, term: Term) -> bool:
        """Whether a term contains the empty text."""
        return self._nullable[term]

    def chars(self, ranges: Ranges) -> Term:
        """The term of one character from some ranges."""
        return self._of("chars", ranges) if ranges else NOTHING

    def some(self) -> Term:
        """The term of all texts with at least one character."""
        return self.cat(self.chars(((0, LAST),)), ALL)

    def cat(self, one: Term, other: Term) -> Term:
        """One term, then another."""
        if one == NOTHING or other == NOTHING:
            return NOTHING
        if one == EMPTY:
            return other
        if other == EMPTY:
            return one
        if one == ALL and other == ALL:
            return ALL
        term = self._all[one]
        if term[0] == "cat":
            return self.cat(term[1], self.cat(term[2], other))
        return self._of("cat", one, other)

    def repeat(self, term: Term, least: int, most: int | None) -> Term:
        """A term repeated `least` to `most` times, or without upper bound."""
        if most == 0 or term == EMPTY:
            return EMPTY
        if term == NOTHING:
            return EMPTY if least == 0 else NOTHING
        if self._nullable[term]:
            least = 0
        if most is None:
            star = ALL if self._all[term] == ("chars", ((0, LAST),)) else self._of("star", term)
            return star if least == 0 else self.cat(self._of("repeat", term, least, least), star)
        return term if least == most == 1 else self._of("repeat", term, least, most)

    def either(self, parts: tuple[Term, ...]) -> Term:
        """The union of some terms."""
        return self._join("or", parts, NOTHING, ALL)

    def both(self, parts: tuple[Term, ...]) -> Term:
        """The intersection of some terms."""
        return self._join("and", parts, ALL, NOTHING)

    def _join(self, op: str, parts: tuple[Term, ...], neutral: Term, absorbing: Term) -> Term:
        found: set[Term] = set()
        for part in parts:
            term = self._all[part]
            found.update(term[1] if term[0] == op else (part,))
        found.discard(neutral)
        if absorbing in found:
            return absorbing
        if op == "and" and EMPTY in found:
            return EMPTY if all(self._nullable[one] for one in found) else NOTHING
        if len(found) < 2:
            return next(iter(found), neutral)
        return self._of(op, frozenset(found))

    def other(self, term: Term) -> Term:
        """The complement of a term."""
        if term in (NOTHING, ALL):
            return ALL if term == NOTHING else NOTHING
        content = self._all[term]
        return int(content[1]) if content[0] == "not" else self._of("not", term)

    def loop(self, builder: _Builder, part: Tree, then: Term) -> Term:
        """A repetition of a tree with assertions, followed by a term. Its continuation is the loop itself."""
        for i, known in enumerate(self._loops):
            if known[1:] == (part, then):
                return self._of("loop", i)
        self._loops.append((builder, part, then))
        return self._of("loop", len(self._loops) - 1)

    def _unfold(self, number: int) -> Term:
        """A loop that is entered at least once. Iterations that read nothing are left out: they add
        nothing."""
        found = self._unfolded.get(number)
        if found is None:
            builder, part, _ = self._loops[number]
            found = builder.term(part, self._of("loop", number), "within")
            self._unfolded[number] = found
        return found

    def intervals(self) -> list[tuple[int, int]]:
        """Cut all characters at the bounds of all sets of characters. For each interval, its first
        character and the sets that contain it, one bit for each."""
        if self._n_intervals_of < len(self._sets):
            self._n_intervals_of = len(self._sets)
            changes: dict[int, int] = {0: 0}
            for term, bit in self._sets.items():
                for low, high in self._all[term][1]:
                    changes[low] = changes.get(low, 0) ^ bit
                    changes[high + 1] = changes.get(high + 1, 0) ^ bit
            changes.pop(LAST + 1, None)
            members, found = 0, []
            for low in sorted(changes):
                members ^= changes[low]
                found.append((low, members))
            self._intervals = found
        return self._intervals

    def first(self, term: Term) -> int:
        """The sets of characters on which the derivatives of a term depend, one bit for each."""
        found = self._first.get(term)
        if found is None:
            self._first[term] = 0  # for a loop inside of itself
            found = self._first[term] = self._find_first(term, self._all[term])
        return found

    def _find_first(self, number: Term, term: tuple[Any, ...]) -> int:
        kind = term[0]
        if kind == "chars":
            return self._sets.setdefault(number, 1 << len(self._sets))
        if kind == "cat":
            found = self.first(term[1])
            return found | self.first(term[2]) if self._nullable[term[1]] else found
        if kind in ("or", "and"):
            found = 0
            for one in term[1]:
                found |= self.first(one)
            return found
        if kind == "loop":
            return self.first(self._loops[term[1]][2]) | self.first(self._unfold(term[1]))
        return self.first(term[1])

    def derivative(self, term: Term, members: int) -> Term:
        """The derivative of a term by a character; `members` has the bits of the sets that contain it."""
        key = term, members & self.first(term)
        found = self._derivatives.get(key)
        if found is None:
            self._derivatives[key] = NOTHING  # for a loop inside of itself
            found = self._derivatives[key] = self._derive(term, self._all[term], members)
        return found

    def _derive(self, number: Term, term: tuple[Any, ...], members: int) -> Term:
        kind = term[0]
        if kind == "chars":
            return EMPTY if members & self._sets[number] else NOTHING
        if kind == "cat":
            found = self.cat(self.derivative(term[1], members), term[2])
            if self._nullable[term[1]]:
                found = self.either((found, self.derivative(term[2], members)))
            return found
        if kind == "star":
            return self.cat(self.derivative(term[1], members), number)
        if kind == "repeat":
            _, part, least, most = term
            rest = self.repeat(part, max(least - 1, 0), most - 1)
            return self.cat(self.derivative(part, members), rest)
        if kind == "or":
            return self.either(tuple(self.derivative(one, members) for one in sorted(term[1])))
        if kind == "and":
            return self.both(tuple(self.derivative(one, members) for one in sorted(term[1])))
        if kind == "not":
            return self.other(self.derivative(term[1], members))
        if kind == "loop":
            then = self._loops[term[1]][2]
            again = self.derivative(self._unfold(term[1]), members)
            return self.either((self.derivative(then, members), again))
        return ALL if number == ALL else NOTHING
