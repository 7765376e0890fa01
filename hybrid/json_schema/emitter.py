# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Rules of JSON texts for strings, numbers and keys, and what stands between values.

What: an `Emitter` holds the rules of a grammar that is being written (`rows.py`). It writes scalars and
keys, spelled by `hybrid.json_schema.languages.spelling`, and commas, colons and white space according to
the `Layout`.
When: for `hybrid.json_schema.structure_writers`, which adds objects and arrays.
Limits: rules are identified by what they read: equal strings share one rule.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.automata import Nonterminal
from cython.cimports.hybrid.json_schema.rows import Rows

from equivalence.arrays.ranges import LAST, Ranges
from hybrid.json_schema.automata import KeyClass
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.languages.automaton import Automaton, one_of, universal
from hybrid.json_schema.languages.counted import CountedLanguage, counted_language
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.spelling import spelled
from hybrid.json_schema.layout import Layout
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.strings import ANY_CHARACTER
from hybrid.json_schema.texts import write_listed, write_others, write_plainly
from hybrid.json_schema.uniqueness import marks

check_source(__name__)

ALL = ((0, LAST),)
"""All characters."""

_DEEPEST = 64
"""The deepest level of an indented text; deeper schemas are refused."""


@cython.final
@cython.cclass
class Emitter:
    """The rules of one grammar that is being written.

    Args:
        nonterminals: the nonterminals whose values are written.
        layout: what stands between values.
        counts: whether the rules may have counted automata.

    Attributes:
        rows: the rules written so far.
    """

    def __init__(self, nonterminals: Nonterminals, layout: Layout, counts: cython.bint) -> None:
        self.rows = Rows()
        self._counts = counts
        self.layout = layout
        self._nonterminals, self._false = nonterminals, nonterminals.formulas.false
        self.is_free, self._most_blanks = layout.is_free, layout.most_blanks
        self._has_depth = not layout.is_free and layout.indent is not None
        self._rules = {}
        self._blanks = -1  # the rule of optional white space
        self.todo = []  # nonterminals whose rules are not written yet, with depths and rules

    def value(self, nonterminal: Nonterminal, depth: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the rule of a nonterminal's values."""
        depth = depth if self._has_depth else 0
        if depth > _DEEPEST:
            why = f"allows values of more than {_DEEPEST} levels, which `indent` does not support"
            raise SchemaRefused("option", "", "", why)
        key = nonterminal, depth
        rule = self._rules.get(key)
        if rule is None:
            rule = self._scalar_alone(nonterminal)
            if rule is None:
                rule = self.rows.rule(f"value_{nonterminal.number}_{depth}")
                self.todo.append((nonterminal, depth, rule))
            self._rules[key] = rule
        return rule

    def _scalar_alone(self, one: Nonterminal) -> object:
        """Return the rule of a nonterminal that has only strings or only numbers; None for others."""
        false = self._false
        if one.null or one.booleans or one.arrays is not false or one.objects is not false:
            return None
        if one.numbers is false and one.strings is not false:
            return self._strings(one)
        return self._numbers(one) if one.strings is false and one.numbers is not false else None

    def scalars(self, one: Nonterminal, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Add edges that read the constants, numbers and strings of a nonterminal."""
        rows, false = self.rows, self._false
        if one.null:
            rows.text(begin, "null", end)
        for value in one.booleans:
            rows.text(begin, "true" if value else "false", end)
        if one.numbers is not false:
            rows.call(begin, self._numbers(one), end)
        if one.strings is not false:
            rows.call(begin, self._strings(one), end)

    def _numbers(self, one: Nonterminal) -> cython.Py_ssize_t:
        texts = self._nonterminals.numbers.texts(one.numbers)
        rule = self._rules.get(texts)
        if rule is None:
            rule = self._rules[texts] = self.rows.rule(f"number_{len(self._rules)}")
            self._as_is(texts, -1 - 2 * rule, -2 - 2 * rule)
        return rule

    def _strings(self, one: Nonterminal) -> cython.Py_ssize_t:
        strings = self._nonterminals.strings
        listed = strings.listed(one.strings)
        content = listed if listed is not None else strings.pieces(one.strings)
        rule = self._rules.get(content)
        if rule is None:
            rows = self.rows
            rule = self._rules[content] = rows.rule(f"string_{len(self._rules)}")
            self._nonterminals.check()
            inside = rows.state()
            rows.letter(-1 - 2 * rule, '"', inside)
            if listed is not None:
                write_listed(rows, sorted(listed), inside, -2 - 2 * rule)
            else:
                try:
                    for piece in content:
                        self._piece(piece, inside, -2 - 2 * rule)
                except SchemaRefused as error:
                    raise self._nonterminals.placed(error, one.formula) from error.__cause__
        return rule

    def _piece(self, piece: Piece, source: int, end: int) -> None:
        """Add edges that read the texts of a piece and the closing quote."""
        rows, characters = self.rows, piece.characters
        if piece.is_counted:
            self._counted(piece, source, end)
            return
        if (
            characters == ANY_CHARACTER
            and piece.prefix.is_empty_text
            and not piece.least
            and piece.most is None
        ):
            rows.call(source, self._rest(universal()), end)
            return
        if characters is None:
            self._plainly(piece.prefix, source, end, True)
            return
        if piece.prefix.is_empty_text:
            entry = source
        else:
            entry = rows.state()
            self._plainly(piece.prefix, source, entry, False)
        after = rows.state()
        rows.call(entry, self._repeated(self._character(characters), piece.least, piece.most), after)
        rows.letter(after, '"', end)

    def _counted(self, piece: Piece, source: int, end: int) -> None:
        """Add edges that read the texts of a piece with a length: each character is a call, counted by the
        parser if it can count them, or with a state for each length."""
        language = counted_language(piece.prefix, piece.least, piece.most) if self._counts else None
        if language is not None:
            after = self.rows.state()
            self.rows.call(source, self._counted_rule(piece, language), after)
            self.rows.letter(after, '"', end)
            return
        self._plainly(self._nonterminals.strings.every_length(piece), source, end, True)

    def _counted_rule(self, piece: Piece, language: CountedLanguage) -> int:
        rule = self._rules.get(piece)
        if rule is None:
            characters = [self._character(one_of(ranges)) for ranges in language.sets]
            units = [characters[number] for number in language.units]
            rule = self._rules[piece] = self.rows.counted(language.automaton, units)
        return rule

    def _as_is(self, texts: Automaton, source: int, end: int, closing: bool = False) -> None:
        """Add edges that read the texts of a language, without escapes, and perhaps a closing quote."""
        first = self.rows.states(texts.n_states)
        self.rows.edges(first, texts.ranges)
        self._connect(source, first, texts, end, closing)

    def _plainly(self, language: Automaton, source: int, end: int, closing: bool) -> None:
        """Add edges that read the spellings of a language (`write_plainly`), and perhaps a closing quote."""
        self._connect(source, write_plainly(self.rows, language, self._wide), language, end, closing)

    def _connect(self, source: int, first: int, language: Automaton, end: int, closing: bool) -> None:
        """Connect the states of a language with the states before and after it."""
        rows = self.rows
        rows.empty(source, first)
        for state, accepts in enumerate(language.accepting):
            if accepts and closing:
                rows.letter(first + state, '"', end)
            elif accepts:
                rows.empty(first + state, end)

    def _wide(self, ranges: Ranges) -> int:
        """Return the rule of one character of some ranges, in all spellings."""
        key = "wide", ranges
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"wide_{len(self._rules)}")
            self._as_is(spelled(ranges), -1 - 2 * rule, -2 - 2 * rule)
        return rule

    def _character(self, characters: Automaton) -> int:
        """Return the rule of one character of a set."""
        if characters == ANY_CHARACTER:
            return self._wide(ALL)
        key = "character", characters
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"character_{len(self._rules)}")
            self._plainly(characters, -1 - 2 * rule, -2 - 2 * rule, False)
        return rule

    def _repeated(self, unit: cython.Py_ssize_t, least: cython.Py_ssize_t, most: object) -> cython.Py_ssize_t:
        key = unit, least, most
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.repeat(unit, least, most)
        return rule

    def repeated_items(self, value, depth, least, most, is_marked) -> cython.Py_ssize_t:
        """Return the rule of a number of items, each after a comma or its mark."""
        key = "item", value, depth if self._has_depth else 0, is_marked
        unit = self._rules.get(key)
        if unit is None:
            unit = self._rules[key] = self.rows.rule(f"item_{value.number}_{len(self._rules)}")
            for comma in (",", marks.COMMA) if is_marked else (",",):
                before = self.separated(self.blanks(-1 - 2 * unit), depth, comma)
                self.rows.call(before, self.value(value, depth), -2 - 2 * unit)
        return self._repeated(unit, least, most)

    def key(self, known: KeyClass) -> cython.Py_ssize_t:
        """Return the rule of the keys of a class, including the closing quote."""
        if not known.others:
            return self._rest(known.language)
        key = "key", known.others
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"key_{len(self._rules)}")
            first = write_others(self.rows, sorted(known.others), self._wide, -2 - 2 * rule)
            self.rows.empty(-1 - 2 * rule, first)
        return rule

    def _rest(self, language: Automaton) -> int:
        """Return the rule of the texts of a language, including the closing quote."""
        key = "rest", language
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"rest_{len(self._rules)}")
            begin, end = -1 - 2 * rule, -2 - 2 * rule
            if language.is_universal:
                self._as_is(spelled(ALL, True), begin, end, True)
            else:
                self._plainly(language, begin, end, True)
        return rule

    def blanks(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the state after optional white space."""
        rows = self.rows
        if not self.is_free:
            return state
        if self._most_blanks is None:
            loop = rows.state() if state < 0 else state
            if state < 0:
                rows.empty(state, loop)  # only calls may enter the start of a rule
            self._blank_edges(loop, loop)
            return loop
        if self._blanks < 0:
            blank = rows.rule("blank")
            self._blank_edges(-1 - 2 * blank, -2 - 2 * blank)
            self._blanks = rows.repeat(blank, 0, self._most_blanks)
        after = rows.state()
        rows.call(state, self._blanks, after)
        return after

    def _blank_edges(self, source: cython.Py_ssize_t, target: cython.Py_ssize_t) -> object:
        """Add edges that read one character of JSON's white space: tab, line feed, return or blank."""
        self.rows.characters(source, 9, 10, target)
        self.rows.characters(source, 13, 13, target)
        self.rows.characters(source, 32, 32, target)

    def literal(self, state: cython.Py_ssize_t, text: str) -> cython.Py_ssize_t:
        """Return the state after a literal text."""
        if not text:
            return state
        after = self.rows.state()
        self.rows.text(state, text, after)
        return after

    def line(self, depth: cython.Py_ssize_t) -> str:
        """Return the line break and indentation before a part at a depth, if lines are broken."""
        return "\n" + " " * (depth * self.layout.indent) if self._has_depth else ""

    def separated(self, at: cython.Py_ssize_t, depth: cython.Py_ssize_t, comma: str) -> cython.Py_ssize_t:
        """Return the state after a comma or its mark, and the white space after it, before a part at a depth.
        The white space before it was read already."""
        if self.is_free:
            return self.blanks(self.literal(at, comma))
        return self.literal(at, self.layout.comma.replace(",", comma) + self.line(depth))

    def colon(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the state after the colon that follows a key."""
        if self.is_free:
            return self.blanks(self.literal(self.blanks(state), ":"))
        return self.literal(state, self.layout.colon)
