"""From patterns to automata, by derivatives.

What: `pattern` gives the automaton of all texts in which a pattern of ECMA-262 matches somewhere. A state
is a regular expression for the rest of the text (`terms.py`); its derivative by a character is the next
state (`term_derivatives.py`). Intersection and complement are operators, so a look-ahead is the intersection
of its own pattern with everything that follows it.
When: for each new pattern; results are cached.
Limits: if more states are needed than the bound, `TooLarge` is raised. A repetition {m,n} is one
expression, but costs n states.

Assertions are resolved when a tree is turned into a term (`_Builder`), because the builder knows what follows
each part.
"""

from __future__ import annotations

from equivalence.arrays.ranges import others
from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import Automaton, language_of
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.languages.syntax import WORD, InvalidPattern, Tree, Unsupported, parse
from hybrid.json_schema.languages.terms import ALL, EMPTY, NOTHING, Terms

__all__ = ["InvalidPattern", "Unsupported", "pattern"]

Term = int
"""The number of a term."""


@cached(2048)
def pattern(source: str, bound: int) -> Automaton:
    """Return the texts in which a pattern matches somewhere.

    Raises:
        Unsupported, InvalidPattern: it cannot be read.
        TooLarge: it needs more states than the bound.
    """
    try:
        tree = parse(source)
        terms = Terms()
        builder = _Builder(terms)
        first = builder.term(tree, ALL, "start")
        start = terms.union((first, _later(builder, tree)))
        return language_of(terms, start, bound)
    except RecursionError as error:
        raise Unsupported("groups nested too deeply, or with assertions and repeated too often") from error


def _later(builder: _Builder, tree: Tree) -> Term:
    """Return the term of texts in which a tree matches after at least one character."""
    terms = builder.terms
    if not builder.asks_for(tree, _BOUNDARY):
        return terms.cat(terms.nonempty(), builder.term(tree, ALL, "within"))
    found = [
        terms.cat(terms.chars(ranges), builder.term(tree, ALL, before))
        for before, ranges in (("word", WORD), ("other", others(WORD)))
    ]
    return terms.cat(ALL, terms.union(tuple(found)))


_ASSERTIONS, _LOOKING_BACK = frozenset(("start", "end", "boundary", "look")), frozenset(("start", "boundary"))
_BOUNDARY = frozenset(("boundary",))
_NONE: frozenset[str] = frozenset()

_MOST_GROUPS = 4_096
"""At most this many groups with assertions are written out before ``^`` or ``\\b``."""


class _Builder:
    """Turns trees into terms.

    `before` says what comes before a part: "start" (nothing), "word" or "other" (a character of that kind),
    or "within" (some character, if its kind does not matter).
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._assertions: dict[Tree, frozenset[str]] = {}
        self._known: dict[tuple[tuple[Tree, ...], Term, str], Term] = {}
        self._n_groups = 0

    def asks_for(self, tree: Tree, kinds: frozenset[str]) -> bool:
        """Whether a tree contains an assertion of some kinds."""
        return not kinds.isdisjoint(self._assertions_of(tree))

    def _assertions_of(self, tree: Tree) -> frozenset[str]:
        """Return the kinds of the assertions in a tree."""
        kind = tree[0]
        if kind == "chars":
            return _NONE
        found = self._assertions.get(tree)
        if found is None:
            check_deadline()
            found = frozenset((kind,)) & _ASSERTIONS
            if kind in ("repeat", "look"):
                found |= self._assertions_of(tree[1])
            elif kind in ("cat", "or"):
                found = found.union(*map(self._assertions_of, tree[1]))
            self._assertions[tree] = found
        return found

    def term(self, tree: Tree, then: Term, before: str) -> Term:
        """Return the term of the texts of a tree followed by texts of a term."""
        kind, terms = tree[0], self.terms
        if not self.asks_for(tree, _ASSERTIONS):
            return self.plain(tree, then)
        if kind == "cat":
            return self._cat(tree[1], then, before)
        if kind == "or":
            return terms.union(tuple(self.term(part, then, before) for part in tree[1]))
        if kind == "start":
            return then if before == "start" else NOTHING
        if kind == "end":
            return EMPTY if terms.nullable(then) else NOTHING
        if kind == "boundary":
            return self._boundary(tree[1], then, before)
        if kind == "look":
            asked = self.term(tree[1], ALL, before)
            return terms.intersection((terms.complement(asked) if tree[2] else asked, then))
        if self.asks_for(tree, _LOOKING_BACK):
            return self._looking_back((tree,), then, before)
        return self._repeat(tree, then)

    def plain(self, tree: Tree, then: Term = EMPTY) -> Term:
        """Return the term of the texts of a tree without assertions, followed by texts of a term."""
        kind, terms = tree[0], self.terms
        if kind == "cat":
            check_deadline()
            for part in reversed(tree[1]):
                then = self.plain(part, then)
            return then
        if kind == "chars":
            found = terms.chars(tree[1])
        elif kind == "or":
            found = terms.union(tuple(map(self.plain, tree[1])))
        else:
            found = terms.repeat(self.plain(tree[1]), tree[2], tree[3])
        return terms.cat(found, then)

    def _cat(self, parts: tuple[Tree, ...], then: Term, before: str) -> Term:
        last = len(parts) - 1
        while last >= 0 and not self.asks_for(parts[last], _LOOKING_BACK):
            # nothing from here on asks what comes before it: no call for each part of a long text
            then = self.term(parts[last], then, "within" if last else before)
            last -= 1
        return self._looking_back(parts[: last + 1], then, before) if last >= 0 else then

    def _looking_back(self, parts: tuple[Tree, ...], then: Term, before: str) -> Term:
        """Return the term of parts of which the last depends on what comes before it."""
        if not parts:
            return then
        key = parts, then, before
        found = self._known.get(key)
        if found is None:
            check_deadline()
            found = self._known[key] = self._find_looking_back(parts, then, before)
        return found

    def _find_looking_back(self, parts: tuple[Tree, ...], then: Term, before: str) -> Term:
        first, rest = parts[0], parts[1:]
        if not rest and first[0] != "repeat":
            return self.term(first, then, before)
        if first[0] in _ASSERTIONS:
            return self.term(first, self._looking_back(rest, then, before), before)
        if self.asks_for(first, _ASSERTIONS):
            return self._behind_group(first, rest, then, before)
        n = 1
        while not self.asks_for(parts[n], _ASSERTIONS):  # the last part does
            n += 1
        return self._behind(self.plain(("cat", parts[:n])), parts[n:], then, before)

    def _behind_group(self, first: Tree, rest: tuple[Tree, ...], then: Term, before: str) -> Term:
        """Return the term of parts that depend on what comes before them, after a part with assertions."""
        self._n_groups += 1
        if self._n_groups > _MOST_GROUPS:
            raise Unsupported("too many alternatives before ^ or \\b")
        if first[0] == "cat":
            return self._looking_back((*first[1], *rest), then, before)
        if first[0] == "or":
            branches = [self._looking_back((part, *rest), then, before) for part in first[1]]
            return self.terms.union(tuple(branches))
        _, part, least, most = first
        if least == 0 == most:
            return self._looking_back(rest, then, before)
        again = (part, ("repeat", part, max(least - 1, 0), most and most - 1), *rest)
        if least:
            return self._looking_back(again, then, before)
        without = self._looking_back(rest, then, before)
        if most is None:
            _refuse_empty(part)
            key = first, rest, then, before
            return self.terms.loop(key, without, lambda _: self._looking_back(again, then, before))
        return self.terms.union((without, self._looking_back(again, then, before)))

    def _behind(self, first: Term, rest: tuple[Tree, ...], then: Term, before: str) -> Term:
        """Return the term of parts that depend on what comes before them, after a part that does not."""
        terms = self.terms
        found = [self._looking_back(rest, then, before)] if terms.nullable(first) else []
        if self.asks_for(("cat", rest), _BOUNDARY):
            for kind, ranges in (("word", WORD), ("other", others(WORD))):
                ends = terms.intersection((first, terms.cat(ALL, terms.chars(ranges))))
                found.append(terms.cat(ends, self._looking_back(rest, then, kind)))
        else:
            some = terms.intersection((first, terms.nonempty())) if terms.nullable(first) else first
            found.append(terms.cat(some, self._looking_back(rest, then, "within")))
        return terms.union(tuple(found))

    def _boundary(self, negated: bool, then: Term, before: str) -> Term:
        terms = self.terms
        word = terms.cat(terms.chars(WORD), ALL)
        is_behind_word = {"word": True, "other": False, "start": False}[before]
        asked = terms.complement(word) if is_behind_word != negated else word
        return terms.intersection((asked, then))

    def _repeat(self, tree: Tree, then: Term) -> Term:
        """Return the term of a repetition of a part with assertions, none of which looks back."""
        _, part, least, most = tree
        if most is None:
            _refuse_empty(part)
            found = self.terms.loop((part, then), then, lambda loop: self.term(part, loop, "within"))
        else:
            found = then
            for _ in range(most - least):
                check_deadline()
                found = self.terms.union((then, self.term(part, found, "within")))
        for _ in range(least):
            check_deadline()
            found = self.term(part, found, "within")
        return found


def _refuse_empty(tree: Tree) -> None:
    """Refuse a part with assertions that is repeated without an upper bound if it may match the empty
    text."""
    if _may_be_empty(tree):
        raise Unsupported("an assertion inside a repeat that may be empty")


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
