"""Strings: from keywords to formulas of languages, and from formulas to the texts that are written.

What: `Strings` makes formulas from `pattern`, `format`, `minLength`, `maxLength`, `enum` and `const`,
decides them for a text, and finds the language of a formula as *pieces*.
When: for values of type string, and for the keys of objects.
Limits: a formula whose automaton exceeds the bound of states is refused. Lengths of unbounded languages are
counters instead of states if the pattern allows it (`hybrid.json_schema.languages.lengths`, `counted.py`).
Otherwise there is a state for each pair of a state of the pattern and a length; more of these states are
allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from equivalence.arrays.ranges import LAST
from hybrid.json_schema.errors import SchemaRefused, shown
from hybrid.json_schema.formulas import Formula, Formulas, decide
from hybrid.json_schema.keyword_values import count_of
from hybrid.json_schema.languages.automaton import (
    Automaton,
    cells_of,
    complement,
    difference,
    empty,
    intersection,
    one_of,
    union,
    universal,
    without,
    words,
)
from hybrid.json_schema.languages.counted import counted_language
from hybrid.json_schema.languages.formats import (
    LONGEST_HOST,
    TOO_WIDE,
    format_language,
    has_format,
    is_counted_host,
    lacks_texts,
    wider_language,
)
from hybrid.json_schema.languages.lengths import (
    EMPTY_TEXT,
    Piece,
    every_length,
    repeated_set,
    with_length,
)
from hybrid.json_schema.languages.limits import TooLarge, check_deadline
from hybrid.json_schema.languages.pattern import InvalidPattern, Unsupported, pattern
from hybrid.json_schema.locations import Location

ANY_CHARACTER = one_of(((0, LAST),))
_ANY_TEXT = (Piece(EMPTY_TEXT, ANY_CHARACTER),)

FINITE = 64
"""A pattern with at most this many words is treated as a list of words."""


class Listed(NamedTuple):
    """Some texts, or all texts except these.

    Attributes:
        texts: the texts.
        is_inverted: whether all other texts are meant.
    """

    texts: frozenset[str]
    is_inverted: bool

    @property
    def inverted(self) -> Listed:
        """All others."""
        return Listed(self.texts, not self.is_inverted)


def _in_all(parts: Sequence[Listed]) -> Listed:
    """Return the texts that are in all parts."""
    out = frozenset[str]().union(*(part.texts for part in parts if part.is_inverted))
    lists = [part.texts for part in parts if not part.is_inverted]
    return Listed(frozenset.intersection(*lists) - out, False) if lists else Listed(out, True)


def _in_one(parts: Sequence[Listed]) -> Listed:
    """Return the texts that are in exactly one part."""
    counts: dict[str, int] = {}
    n_others = sum(part.is_inverted for part in parts)  # of a text that is not named
    for part in parts:
        for text in part.texts:
            counts[text] = counts.get(text, n_others) + (-1 if part.is_inverted else 1)
    is_inverted = n_others == 1
    return Listed(frozenset(t for t, count in counts.items() if (count == 1) != is_inverted), is_inverted)


OF_LENGTHS = 6
"""This many times as many states are allowed if each is a pair of a state and a length: states of patterns
have more edges."""


class Strings:
    """The string languages of one schema.

    Args:
        formulas: the formulas of the schema.
        bound: the maximum number of states of an automaton.

    Attributes:
        too_wide: places of formats that other texts match, too, with the reasons.
    """

    def __init__(self, formulas: Formulas, bound: int) -> None:
        self.too_wide: dict[str, str] = {}
        self._formulas, self._bound = formulas, bound
        self._automata: dict[Any, Automaton] = {}
        self._patterns: dict[str, Formula] = {}
        self._pieces: dict[Formula, tuple[Piece, ...]] = {}
        self._lists: dict[Formula, Listed | None] = {}
        self._formats: dict[Any, str] = {}  # those of which an automaton lacks some texts
        self._languages: dict[tuple[Formula, bool], Automaton] = {}
        self._of_lengths: dict[Piece, Automaton] = {}
        self._conjunctions: dict[tuple[tuple[Formula, ...], bool], Automaton] = {}

    def clauses(self, location: Location) -> list[Formula]:
        """Return what the keywords of a location require of strings."""
        schema, formulas = location.schema, self._formulas
        languages = []
        if "pattern" in schema:
            languages.append(self.pattern(location, "pattern", schema["pattern"]))
        if "format" in schema:
            name = schema["format"]
            if not isinstance(name, str):
                raise location.refused("format", f"must be text, but is {shown(name)}", "invalid")
            if name in TOO_WIDE:
                self.too_wide[location.pointer] = TOO_WIDE[name]
            languages += self._format(location, name)
        lengths = []
        if "minLength" in schema:
            lengths.append(self.longer(count_of(location, "minLength")))
        if "maxLength" in schema:
            most = count_of(location, "maxLength")
            if not any(self._is_within(one, most) for one in languages):
                lengths.append(formulas.negation(self.longer(most + 1)))
        return lengths + languages

    def _is_within(self, formula: Formula, most: int) -> bool:
        """Whether all texts of a language are known to have at most this many characters."""
        if formula.op != "atom":
            return False
        source = formula.args[1]
        if source[0] == "words":
            return all(len(text) <= most for text in source[1])
        longest = self._automata[source].longest
        return source not in self._formats and longest is not None and longest <= most

    def _format(self, location: Location, name: str) -> list[Formula]:
        """Return what a format requires of strings."""
        schema = location.schema
        least = count_of(location, "minLength") if "minLength" in schema else 0
        most = count_of(location, "maxLength") if "maxLength" in schema else None
        is_bounded = "maxLength" in schema or "minLength" in schema
        language = format_language(name, is_bounded, most, least)
        if language is None:
            return []
        source = "format", language
        formula = self._known(source, language)
        if is_counted_host(name, most, least):
            return [formula, self._formulas.negation(self.longer(LONGEST_HOST + 1))]
        if lacks_texts(name, is_bounded, most, least):
            self._formats[source] = name
        return [formula]

    def longer(self, least: int) -> Formula:
        """Return the formula of strings with at least this many characters."""
        return self._formulas.atom(("longer", least)) if least > 0 else self._formulas.true

    def among(self, texts: Collection[str]) -> Formula:
        """Return the formula of strings that equal one of some texts."""
        if not texts:
            return self._formulas.false
        return self._formulas.atom(("language", ("words", frozenset(texts))))

    def pattern(self, location: Location, keyword: str, source: Any) -> Formula:
        """Return the formula of strings in which a pattern matches somewhere."""
        if not isinstance(source, str):
            raise location.refused(keyword, f"must be text, but is {shown(source)}", "invalid")
        found = self._patterns.get(source)
        if found is None:
            try:
                language = pattern(source, self._bound)
            except Unsupported as error:
                raise location.refused(keyword, f"has {error} in {shown(source)}") from error
            except InvalidPattern as error:
                raise location.refused(keyword, f"is not a regular expression: {error}", "invalid") from error
            except TooLarge as error:
                raise location.refused(keyword, f"{shown(source)} is too large: {error}", "bounds") from error
            found = self._patterns[source] = self._known(("pattern", source), language)
        return found

    def _known(self, source: Any, language: Automaton | None) -> Formula:
        """Return the formula of a language, in its simplest form."""
        assert language is not None
        if language.is_universal:
            return self._formulas.true
        texts = language.words(FINITE)
        if texts is not None:
            return self.among(texts)
        self._automata[source] = language
        return self._formulas.atom(("language", source))

    def holds(self, formula: Formula, text: str) -> bool:
        """Whether a text satisfies a formula."""
        return decide(formula, lambda atom: self._atom_holds(atom.args, text))

    def _atom_holds(self, atom: tuple[Any, ...], text: str) -> bool:
        if atom[0] == "longer":
            return len(text) >= int(atom[1])
        source = atom[1]
        if source[0] == "words":
            return text in source[1]
        name = self._formats.get(source)
        return self._automata[source].contains(text) if name is None else has_format(name, text)

    def writes(self, formula: Formula, text: str) -> bool:
        """Whether the grammar has a text of a formula: one that satisfies it, and is within the limits of
        formats."""
        if not self._has_formats(formula) or self._listed(formula) is not None:
            return self.holds(formula, text)
        longer = [atom for atom in formula.atoms if atom.args[0] == "longer"]
        lengths = {atom: self._formulas.constant(len(text) >= atom.args[1]) for atom in longer}
        inner = self._formulas.substitute(formula, lengths)
        return inner is self._formulas.true or (
            inner is not self._formulas.false and self._language(inner).contains(text)
        )

    def _has_formats(self, formula: Formula) -> bool:
        """Whether a formula has formats with limits."""
        return bool(self._formats) and any(atom.args[1] in self._formats for atom in formula.atoms)

    def pieces(self, formula: Formula) -> tuple[Piece, ...]:
        """Return the language of a formula. No piece is empty; if nothing satisfies the formula, there are no
        pieces.

        Raises:
            TooLarge: it needs more states than the bound allows.
        """
        if formula.op == "true":
            return _ANY_TEXT
        found = self._pieces.get(formula)
        if found is None:
            found = self._pieces[formula] = tuple(self._find_pieces(formula))
        return found

    def _find_pieces(self, formula: Formula) -> Iterator[Piece]:
        for language, least, most in self._windows(formula):
            if language.op == "true":
                yield Piece(EMPTY_TEXT, ANY_CHARACTER, least, most)
            elif not least and most is None:
                yield from _as_pieces(self._language(language))
            else:
                yield from self._within_lengths(self._language(language), least, most)

    def _within_lengths(self, language: Automaton, least: int, most: int | None) -> Iterator[Piece]:
        try:
            automaton, tails = with_length(language, least, most, self._bound)
        except TooLarge:
            piece = Piece(language, None, least, language.longest if most is None else most, True)
            if counted_language(language, least, most) is not None:
                yield piece
                return
            yield from _as_pieces(self.every_length(piece))
            return
        yield from _as_pieces(automaton)
        yield from tails

    def every_length(self, piece: Piece) -> Automaton:
        """Return the texts of a counted piece, with a state for each length.

        Raises:
            TooLarge: it needs more states than the bound allows.
            SchemaRefused: all such pieces together do.
        """
        found, most = self._of_lengths.get(piece), OF_LENGTHS * self._bound
        if found is None:
            found = self._of_lengths[piece] = every_length(piece.prefix, piece.least, piece.most, most)
            if sum(one.n_states for one in self._of_lengths.values()) > most:
                why = f"and patterns of several strings need more than {most} states"
                raise SchemaRefused("bounds", "maxLength", "", why)
        return found

    def _windows(self, formula: Formula) -> Iterator[tuple[Formula, int, int | None]]:
        """Split a formula by lengths: formulas without lengths, each with the lengths for which it holds."""
        formulas = self._formulas
        lengths = sorted({atom.args[1] for atom in formula.atoms if atom.args[0] == "longer"})
        begin, before = 0, None
        longer = [atom for atom in formula.atoms if atom.args[0] == "longer"]
        for i in range(len(lengths) + 1):
            check_deadline()
            reached = lengths[i - 1] if i else 0
            values = {atom: formulas.constant(atom.args[1] <= reached) for atom in longer}
            inner = formulas.substitute(formula, values)
            if before is not None and inner is not before:
                if before is not formulas.false:
                    yield before, begin, lengths[i - 1] - 1
                begin = lengths[i - 1]
            before = inner
        if before is not None and before is not formulas.false:
            yield before, begin, None

    def _language(self, formula: Formula, is_wide: bool = False) -> Automaton:
        """Return the automaton of a formula without lengths. Automata are joined in pairs, smallest first,
        and minimised in between.

        Args:
            is_wide: whether to return a language that has every text that satisfies the formula, and perhaps
                more. Otherwise every text satisfies the formula, but some may be missing. The two differ only
                because of the limits of formats.
        """
        is_wide = is_wide and self._has_formats(formula)
        found = self._languages.get((formula, is_wide))
        if found is not None:
            return found
        op, args = formula.op, formula.args
        listed = self._listed(formula)
        if listed is not None:
            texts = sorted(listed.texts)
            found = without(universal(), texts) if listed.is_inverted else words(texts)
        elif op == "atom":
            found = wider_language(self._formats[args[1]]) if is_wide else self._automata[args[1]]
        elif op == "not":
            found = complement(self._language(args[0], not is_wide))
        else:
            found = self._joined(op, args, is_wide)
        self._languages[formula, is_wide] = found
        return found

    def listed(self, formula: Formula) -> frozenset[str] | None:
        """Return all texts of a formula. None if it uses languages that are not lists, or if it allows all
        texts but some."""
        found = None if formula.is_constant else self._listed(formula)
        return None if found is None or found.is_inverted else found.texts

    def _listed(self, formula: Formula) -> Listed | None:
        """Return the texts of a formula whose languages are all lists; None for other formulas."""
        if formula not in self._lists:
            self._lists[formula] = self._find_listed(formula)
        return self._lists[formula]

    def _find_listed(self, formula: Formula) -> Listed | None:
        op, args = formula.op, formula.args
        if op == "atom":
            known = args[0] == "language" and args[1][0] == "words"
            return Listed(args[1][1], False) if known else None
        if op in ("true", "false"):
            return Listed(frozenset(), op == "true")
        parts = []
        for one in args:
            part = self._listed(one)
            if part is None:
                return None
            parts.append(part)
        if op == "not":
            return parts[0].inverted
        if op == "and":
            return _in_all(parts)
        return _in_all([part.inverted for part in parts]).inverted if op == "or" else _in_one(parts)

    def simplest(self, formula: Formula) -> Formula:
        """Return false if no text satisfies a formula, and one list if lists decide all of it.

        Raises:
            TooLarge: it needs more states than the bound allows.
        """
        listed = self._listed(formula)
        if listed is None:
            return formula if self.pieces(formula) else self._formulas.false
        return formula if listed.is_inverted else self.among(listed.texts)

    def may_have_others(self, formula: Formula) -> bool:
        """Whether texts that are beyond the limits of formats may satisfy a formula."""
        if not self._has_formats(formula):
            return False
        for inner, least, most in self._windows(formula):
            language = self._language(inner, True)
            is_short = language.longest is not None and language.longest < least
            if not (language.is_empty or is_short or (most is not None and language.shortest > most)):
                return True
        return False

    def _joined(self, op: str, args: tuple[Formula, ...], is_wide: bool) -> Automaton:
        if op == "and":
            finite = [one.args[1][1] for one in args if one.op == "atom" and one.args[1][0] == "words"]
            if finite:
                texts = min(finite, key=len)
                return words(sorted(t for t in texts if all(self.holds(one, t) for one in args)))
        if op == "one":
            return self._in_one_language(args, is_wide)
        parts = (
            self._parts_of(args, is_wide) if op == "and" else [self._language(one, is_wide) for one in args]
        )
        parts.sort(key=lambda one: one.n_states)
        joined = parts[0]
        for part in parts[1:]:
            pair = [joined, part]
            joined = intersection(pair, self._bound) if op == "and" else union(pair, self._bound)
        if op == "and":
            self._conjunctions[args, is_wide] = joined
        return joined

    def _in_one_language(self, args: tuple[Formula, ...], is_wide: bool) -> Automaton:
        """Return the texts that satisfy exactly one of some formulas."""
        some, several = self._some_and_several([self._language(one, is_wide) for one in args])
        if any(map(self._has_formats, args)):
            _, several = self._some_and_several([self._language(one, not is_wide) for one in args])
        return difference(some, several, self._bound)

    def _some_and_several(self, parts: list[Automaton]) -> tuple[Automaton, Automaton]:
        """Return the texts that at least one of some languages contains, and those that at least two
        contain. One product of all languages may have exponentially many states."""
        if len(parts) == 1:
            return parts[0], empty()
        middle = len(parts) // 2
        (one, few), (other, others) = map(self._some_and_several, (parts[:middle], parts[middle:]))
        several = union([few, others, intersection([one, other], self._bound)], self._bound)
        return union([one, other], self._bound), several

    def _parts_of(self, args: tuple[Formula, ...], is_wide: bool) -> list[Automaton]:
        """Return the languages of a conjunction's parts, or of all but one together if that is known.

        The cases of a value are "c, but neither a nor b", then "c and d, but neither a nor b", and so on.
        When all parts were intersected each time, 64 patterns took 48,000 intersections. Negations come last,
        because they are newer.
        """
        for at in {len(args) - 1, 0, 1}:
            known = self._conjunctions.get((args[:at] + args[at + 1 :], is_wide))
            if known is not None:
                return [known, self._language(args[at], is_wide)]
        return [self._language(one, is_wide) for one in args]

    def whole(self, formula: Formula, is_wide: bool = False) -> Automaton:
        """Return the language of a formula as one automaton. Lengths become states.

        Raises:
            TooLarge: it needs more states than the bound allows.
        """
        joined = words([])
        for language, least, most in self._windows(formula):
            part = self._language(language, is_wide)
            if least or most is not None:
                part = every_length(part, least, most, self._bound)
            joined = part if joined.is_empty else union([joined, part], self._bound)
        return joined

    def cells(self, formulas: Sequence[Formula], names: Sequence[str]) -> list[tuple[bytes, Automaton]]:
        """Partition the strings by some formulas. Return the non-empty cells without some texts, each with
        the truth of each formula. Texts beyond the limits of formats are in no cell.

        Raises:
            TooLarge: they need more states than the bound allows.
        """
        n, limited = len(formulas), [i for i, one in enumerate(formulas) if self._has_formats(one)]
        automata = [self.whole(one) for one in formulas]
        automata += [self.whole(formulas[i], True) for i in limited]
        cells = []
        for signs, language in cells_of(tuple(automata), self._bound):
            if all(signs[i] == wide for i, wide in zip(limited, signs[n:], strict=True)):
                rest = without(language, names)
                if not rest.is_empty:
                    cells.append((signs[:n], rest))
        return cells


def _as_pieces(language: Automaton) -> Iterator[Piece]:
    """Yield the piece of a whole language; none if it is empty."""
    if not language.is_empty:
        yield repeated_set(language) or Piece(language)
