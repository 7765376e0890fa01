# cython: language_level=3, wraparound=True
"""From nonterminals to the rules of a grammar of JSON texts.

What: `emit` writes the automata of all nonterminals that the first one leads to as rows (`rows.py`): what
stands between the values comes from the `Layout`, strings and keys are spelled
(`hybrid.json_schema.languages.spelling`).
When: once all nonterminals are built and what is dead is known.
Limits: only what is live is written, so that no text leads into a dead end.

Everything is deterministic, but for values whose nonterminals begin alike: these are told apart by calls,
which the parser follows side by side.
"""

from __future__ import annotations

import cython

from equivalence import built
from hybrid.json_schema import marks
from hybrid.json_schema.arrays import ArrayAutomaton, Counted, Edge
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.keys import NO_KEYS, KeyTree
from hybrid.json_schema.languages.automaton import Automaton, one_of, universal
from hybrid.json_schema.languages.spelling import plainly_spelled, spelled
from hybrid.json_schema.languages.syntax import Ranges
from hybrid.json_schema.layout import BLANKS, Layout
from hybrid.json_schema.nonterminals import Nonterminal, Nonterminals
from hybrid.json_schema.objects import ObjectAutomaton
from hybrid.json_schema.rows import Rows
from hybrid.json_schema.strings import Piece
from hybrid.json_schema.texts import TreeWriter

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE

    built.check(__name__, EQUIMASK_SOURCE)

_FEW_BLANKS = 8
"""Bounds of white space up to which each blank has a state; beyond, a counter."""
_DEEPEST = 64
"""Levels of an indented text; more are refused."""


def emit(nonterminals: Nonterminals, start: Nonterminal, layout: Layout) -> tuple[Rows, int]:
    """The rules of all values of a nonterminal, and the rule that texts begin with."""
    emitter = Emitter(nonterminals, layout)
    root = emitter.value(start, 0)
    emitter.finish()
    return emitter.rows, root


class Emitter:
    """One call of `emit`."""

    def __init__(self, nonterminals: Nonterminals, layout: Layout) -> None:
        self.rows = Rows()
        self.layout = layout
        self._nonterminals = nonterminals
        self._rules: dict[object, int] = {}
        self._todo: list[tuple[Nonterminal, int, int]] = []
        self._n_counted = 0  # states of strings whose lengths are counted by states

    def finish(self) -> None:
        """Write all rules that others call."""
        while self._todo:
            nonterminal, depth, rule = self._todo.pop()
            self._nonterminals.check()
            self._write(nonterminal, depth, rule)

    def value(self, nonterminal: Nonterminal, depth: int) -> int:
        """The rule of a nonterminal's values."""
        depth = depth if self.layout.has_depth else 0
        if depth > _DEEPEST:
            raise SchemaRefused(
                "bounds", "", "", f"leads more than {_DEEPEST} levels deep, with an indentation"
            )
        alone = self._scalar_alone(nonterminal)
        if alone is not None:
            return alone
        key = nonterminal, depth
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"value_{nonterminal.number}_{depth}")
            self._todo.append((nonterminal, depth, rule))
        return rule

    def _scalar_alone(self, one: Nonterminal) -> int | None:
        """The rule of a nonterminal that holds strings, or numbers, and nothing else."""
        false = self._nonterminals.formulas.false
        if one.null or one.booleans or one.arrays is not false or one.objects is not false:
            return None
        if one.numbers is false and one.strings is not false:
            return self._strings(one)
        return self._numbers(one) if one.strings is false and one.numbers is not false else None

    def _write(self, one: Nonterminal, depth: int, rule: int) -> None:
        rows, begin, end = self.rows, -1 - 2 * rule, -2 - 2 * rule
        false = self._nonterminals.formulas.false
        words = ["null"] if one.null else []
        words += ["true" if value else "false" for value in one.booleans]
        for word in words:
            rows.text(begin, word, end)
        if one.numbers is not false:
            rows.call(begin, self._numbers(one), end)
        if one.strings is not false:
            rows.call(begin, self._strings(one), end)
        if one.object is not None and one.object.is_live[0]:
            ObjectWriter(self, one.object, depth).write(begin, end)
        if one.array is not None and one.array.is_live[0]:
            ArrayWriter(self, one.array, depth).write(begin, end)

    def _numbers(self, one: Nonterminal) -> int:
        texts = self._nonterminals.numbers.texts(one.numbers)
        rule = self._rules.get(texts)
        if rule is None:
            rule = self._rules[texts] = self.rows.rule(f"number_{len(self._rules)}")
            first = self.rows.states(texts.n_states)
            self.rows.edges(first, texts.ranges())
            self.rows.empty(-1 - 2 * rule, first)
            for state, accepts in enumerate(texts.accepting):
                if accepts:
                    self.rows.empty(first + state, -2 - 2 * rule)
        return rule

    def _strings(self, one: Nonterminal) -> int:
        listed = self._nonterminals.strings.listed(one.strings)
        if listed is not None:
            return self._listed(listed)
        pieces = self._nonterminals.strings.pieces(one.strings)
        rule = self._rules.get(pieces)
        if rule is None:
            rows = self.rows
            rule = self._rules[pieces] = rows.rule(f"string_{len(self._rules)}")
            inside = rows.state()
            rows.byte(-1 - 2 * rule, '"', inside)
            for piece in pieces:
                self._piece(piece, inside, -2 - 2 * rule)
        return rule

    def _listed(self, texts: frozenset[str]) -> int:
        """The rule of some strings that a schema lists."""
        rule = self._rules.get(texts)
        if rule is None:
            rows = self.rows
            rule = self._rules[texts] = rows.rule(f"string_{len(self._rules)}")
            tree, end = NO_KEYS, -2 - 2 * rule
            for text in sorted(texts):
                tree = tree.with_key(text, 0)
            writer = TreeWriter(rows, lambda state, _: rows.byte(state, '"', end))
            rows.byte(-1 - 2 * rule, '"', writer.state_of(tree))
            writer.finish()
        return rule

    def _piece(self, piece: Piece, source: int, end: int) -> None:
        """Edges that read the texts of a piece and the closing quote."""
        rows, characters = self.rows, piece.characters
        if piece.is_counted:
            self._counted(piece, source, end)
            return
        free = characters is not None and characters.rows[0] == ((0, 0x10FFFF, 1),)
        if free and piece.prefix.rows == ((),) and not piece.least and piece.most is None:
            self._spelled(universal(), True, source, end)
            return
        if characters is None:
            self._spelled(piece.prefix, False, source, end)
            return
        if piece.prefix.rows == ((),):  # the empty text
            entry = source
        else:
            entry = rows.state()
            self._spelled(piece.prefix, False, source, entry, closing=False)
        after = rows.state()
        rows.call(entry, self._repeated(self._character(characters, free), piece.least, piece.most), after)
        rows.byte(after, '"', end)

    def _counted(self, piece: Piece, source: int, end: int) -> None:
        """Edges that read the texts of a piece that has a state for each length: each character is a call."""
        strings = self._nonterminals.strings
        grid = strings.grid(piece)
        self._n_counted += grid.n_states
        if self._n_counted > strings.most_counted:
            raise SchemaRefused(
                "bounds", "maxLength", "",
                f"and patterns of several strings need more than {strings.most_counted} states",
            )  # fmt: skip
        rules = [self._character(one_of(ranges), False) for ranges in grid.sets]
        first = self.rows.states(grid.n_states)
        self.rows.calls(first, grid.edges, rules)
        self.rows.empty(source, first)
        quote = self.rows.state()
        self.rows.byte(quote, '"', end)
        for state in grid.accepting.tolist():
            self.rows.empty(first + state, quote)

    def _spelled(
        self, language: Automaton, every_spelling: bool, source: int, end: int, closing: bool = True
    ) -> None:
        """Edges that read the spellings of a language, and the closing quote."""
        rows = self.rows
        if every_spelling:
            texts = spelled(language)
            first = rows.states(texts.n_states)
            rows.edges(first, texts.ranges())
        else:
            plain = plainly_spelled(language)
            first = rows.states(plain.n_states)
            rows.edges(first, plain.ranges)
            if plain.sets:
                rows.calls(first, plain.wide, [self._wide(one) for one in plain.sets])
        rows.empty(source, first)
        for state, accepts in enumerate(language.accepting):
            if accepts and closing:
                rows.byte(first + state, '"', end)
            elif accepts:
                rows.empty(first + state, end)

    def _wide(self, ranges: Ranges) -> int:
        """The rule of one character that is not printable ASCII, in every spelling."""
        key = "wide", ranges
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"wide_{len(self._rules)}")
            self._spelled(one_of(ranges), True, -1 - 2 * rule, -2 - 2 * rule, closing=False)
        return rule

    def _character(self, characters: Automaton, free: bool) -> int:
        """The rule of one character out of a set."""
        key = "character", characters
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"character_{len(self._rules)}")
            self._spelled(characters, free, -1 - 2 * rule, -2 - 2 * rule, closing=False)
        return rule

    def _repeated(self, unit: int, least: int, most: int | None) -> int:
        key = unit, least, most
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.repeat(unit, least, most)
        return rule

    def repeated_items(
        self, value: Nonterminal, depth: int, least: int, most: int | None, is_marked: bool
    ) -> int:
        """The rule of so many items, each behind a comma, or the mark that stands for it."""
        key = "item", value, depth if self.layout.has_depth else 0, is_marked
        unit = self._rules.get(key)
        if unit is None:
            unit = self._rules[key] = self.rows.rule(f"item_{value.number}_{len(self._rules)}")
            for comma in (",", marks.COMMA) if is_marked else (",",):
                before = self.comma(-1 - 2 * unit, depth, comma)
                self.rows.call(before, self.value(value, depth), -2 - 2 * unit)
        return self._repeated(unit, least, most)

    def key(self, language: Automaton) -> int:
        """The rule of the keys of a class, with the closing quote."""
        key = "key", language
        rule = self._rules.get(key)
        if rule is None:
            rule = self._rules[key] = self.rows.rule(f"key_{len(self._rules)}")
            self._spelled(language, language.is_universal, -1 - 2 * rule, -2 - 2 * rule)
        return rule

    def blanks(self, state: int) -> int:
        """The state behind optional white space."""
        rows, layout = self.rows, self.layout
        if not layout.is_free:
            return state
        if layout.most_blanks is None:
            loop = rows.state() if state < 0 else state
            if state < 0:
                rows.empty(state, loop)  # a rule's own begin is entered by calls alone
            for low, high in BLANKS:
                rows.characters(loop, low, high, loop)
            return loop
        after = rows.state()
        if layout.most_blanks > _FEW_BLANKS:
            rows.call(state, self._repeated(self._blank(), 0, layout.most_blanks), after)
            return after
        for _ in range(layout.most_blanks):
            rows.empty(state, after)
            following = rows.state()
            for low, high in BLANKS:
                rows.characters(state, low, high, following)
            state = following
        rows.empty(state, after)
        return after

    def _blank(self) -> int:
        rule = self._rules.get("blank")
        if rule is None:
            rule = self._rules["blank"] = self.rows.rule("blank")
            for low, high in BLANKS:
                self.rows.characters(-1 - 2 * rule, low, high, -2 - 2 * rule)
        return rule

    def literal(self, state: int, text: str) -> int:
        """The state behind a text."""
        if not text:
            return state
        after = self.rows.state()
        self.rows.text(state, text, after)
        return after

    def comma(self, state: int, depth: int, comma: str = ",") -> int:
        """The state behind a comma between parts of a depth, or its mark, and what stands around it."""
        layout = self.layout
        if layout.is_free:
            return self.blanks(self.literal(self.blanks(state), comma))
        return self.literal(state, layout.comma.replace(",", comma) + layout.line(depth))

    def colon(self, state: int) -> int:
        """The state behind the colon of a key."""
        if self.layout.is_free:
            return self.blanks(self.literal(self.blanks(state), ":"))
        return self.literal(state, self.layout.colon)


class ObjectWriter:
    """Writes the objects of one nonterminal, between two states."""

    def __init__(self, emitter: Emitter, automaton: ObjectAutomaton, depth: int) -> None:
        self._emitter, self._rows, self._depth = emitter, emitter.rows, depth
        self._automaton = automaton
        self._trees: dict[int, KeyTree] = {}
        self._keys_below = TreeWriter(self._rows, self._key_ends)
        self._opened: dict[int, int] = {}
        self._behind: dict[int, int] = {}
        self._ends: dict[int, bool] = {}
        self._end = 0

    def write(self, begin: int, end: int) -> None:
        """Write everything from the opening to the closing brace."""
        emitter, layout, rows = self._emitter, self._emitter.layout, self._rows
        self._end = end
        opened = emitter.literal(begin, "{")
        inside = emitter.blanks(opened)
        if self._may_end(0):
            rows.byte(inside, "}", end)
        if self._has_keys(0):
            first = emitter.literal(inside, layout.line(self._depth + 1))
            rows.byte(first, '"', self._keys(0))
        self._keys_below.finish()

    def _last(self, state: int) -> int:
        """The state once all declared keys are passed over, or -1 where that cannot be."""
        automaton = self._automaton
        while state >= 0 and automaton.is_live[state] and automaton.position[state] < len(automaton.names):
            state = automaton.skipped[state]
        return state if state >= 0 and automaton.is_live[state] else -1

    def _may_end(self, state: int) -> bool:
        found = self._ends.get(state)
        if found is None:
            last = self._last(state)
            found = self._ends[state] = last >= 0 and self._automaton.accepting[last]
        return found

    def _live(self, edges: list[Edge]) -> list[Edge]:
        live = self._automaton.is_live
        return [(value, target) for value, target in edges if live[target] and value.is_productive]

    def _extras(self, state: int) -> list[tuple[int, list[Edge]]]:
        """Classes of undeclared keys that may come, with their edges."""
        last = self._last(state)
        if last < 0:
            return []
        found = [(number, self._live(edges)) for number, edges in self._automaton.extra[last]]
        return [(number, edges) for number, edges in found if edges]

    def _tree(self, state: int) -> KeyTree:
        """The declared keys that may come next."""
        automaton = self._automaton
        chain = []
        while state >= 0 and state not in self._trees and automaton.is_live[state]:
            if automaton.position[state] == len(automaton.names):
                break
            chain.append(state)
            state = automaton.skipped[state]
        tree = self._trees.get(state, NO_KEYS)
        for one in reversed(chain):
            if self._live(automaton.edges[one]):
                tree = tree.with_key(automaton.names[automaton.position[one]], one)
            self._trees[one] = tree
        return tree

    def _has_keys(self, state: int) -> bool:
        return self._tree(state) is not NO_KEYS or bool(self._extras(state))

    def _keys(self, state: int) -> int:
        """The state of the text behind the opening quote of a key."""
        found = self._opened.get(state)
        if found is not None:
            return found
        tree, extras = self._tree(state), self._extras(state)
        if not extras:
            found = self._opened[state] = self._keys_below.state_of(tree)
            return found
        found = self._opened[state] = self._rows.state()
        self._keys_below.write(tree, found)
        for number, edges in extras:
            key = self._automaton.classes[number].language
            if key.is_empty:
                continue
            behind = self._rows.state()
            self._rows.call(found, self._emitter.key(key), behind)
            self._value(behind, edges)
        return found

    def _key_ends(self, state: int, key: int) -> None:
        """What follows the last letter of a declared key, which is read in a state of the object."""
        behind = self._rows.state()
        self._rows.byte(state, '"', behind)
        self._value(behind, self._live(self._automaton.edges[key]))

    def _value(self, behind: int, edges: list[Edge]) -> None:
        """What follows a key: the colon, and a value that leads on."""
        start = self._emitter.colon(behind)
        for value, target in edges:
            rule = self._emitter.value(value, self._depth + 1)
            self._rows.call(start, rule, self._after(target))

    def _after(self, state: int) -> int:
        """The state of the text behind a value."""
        found = self._behind.get(state)
        if found is not None:
            return found
        emitter, layout, rows = self._emitter, self._emitter.layout, self._rows
        found = self._behind[state] = rows.state()
        if layout.is_free:
            at = emitter.blanks(found)
            if self._may_end(state):
                rows.byte(at, "}", self._end)
            if self._has_keys(state):
                comma = emitter.blanks(emitter.literal(at, ","))
                rows.byte(comma, '"', self._keys(state))
            return found
        if self._may_end(state):
            rows.byte(emitter.literal(found, layout.line(self._depth)), "}", self._end)
        if self._has_keys(state):
            rows.byte(emitter.comma(found, self._depth + 1), '"', self._keys(state))
        return found


class ArrayWriter:
    """Writes the arrays of one nonterminal, between two states."""

    def __init__(self, emitter: Emitter, automaton: ArrayAutomaton, depth: int) -> None:
        self._emitter, self._rows, self._depth = emitter, emitter.rows, depth
        self._automaton = automaton
        self._behind: dict[int, int] = {}
        self._end = 0

    def write(self, begin: int, end: int) -> None:
        """Write everything from the opening to the closing bracket."""
        emitter, rows, automaton = self._emitter, self._rows, self._automaton
        self._end = end
        inside = emitter.blanks(emitter.literal(begin, "["))
        if automaton.accepting[0]:
            rows.byte(inside, "]", end)
        first = -1
        counted = automaton.counted[0]
        edges = self._live(0) if counted is None else []
        if edges or (counted is not None and counted.value.is_productive):
            first = emitter.literal(inside, emitter.layout.line(self._depth + 1))
        if first >= 0 and counted is not None:
            after = rows.state()
            rows.call(first, emitter.value(counted.value, self._depth + 1), after)
            most = None if counted.most is None else counted.most - 1
            self._count(after, Counted(counted.value, max(counted.least - 1, 0), most))
        for value, target in edges:
            rows.call(first, emitter.value(value, self._depth + 1), self._after(target))

    def _live(self, state: int) -> list[Edge]:
        live = self._automaton.is_live
        return [
            (value, target)
            for value, target in self._automaton.edges[state]
            if live[target] and value.is_productive
        ]

    def _count(self, state: int, counted: Counted) -> None:
        """So many items more, each behind a comma, then the closing bracket."""
        emitter, rows, is_marked = self._emitter, self._rows, self._automaton.is_marked
        value, least, most = counted
        if most == 0:
            self._close_at(emitter.blanks(state))
        elif not least and most is None:
            at = emitter.blanks(state)
            self._close_at(at)
            for comma in (",", marks.COMMA) if is_marked else (",",):
                rows.call(self._separated(at, comma), emitter.value(value, self._depth + 1), state)
        else:
            after = rows.state()
            items = emitter.repeated_items(value, self._depth + 1, least, most, is_marked)
            rows.call(state, items, after)
            self._close_at(emitter.blanks(after))

    def _after(self, state: int) -> int:
        """The state of the text behind an item."""
        found = self._behind.get(state)
        if found is not None:
            return found
        rows, automaton, counted = self._rows, self._automaton, self._automaton.counted[state]
        found = self._behind[state] = rows.state()
        if counted is not None:
            if counted.value.is_productive:
                self._count(found, counted)
            elif not counted.least:
                self._close_at(self._emitter.blanks(found))
            return found
        at = self._emitter.blanks(found)
        self._go_on(at, state, ",", "]")
        if automaton.is_marked and automaton.again(state) >= 0:
            self._go_on(at, automaton.again(state), marks.COMMA, marks.CLOSE)
        return found

    def _go_on(self, at: int, state: int, comma: str, close: str) -> None:
        """What may follow an item: the end, or other items."""
        rows, automaton = self._rows, self._automaton
        edges = self._live(state)
        if automaton.accepting[state]:
            self._byte_at(at, close)
        if edges:
            before = self._separated(at, comma)
            for value, target in edges:
                rows.call(before, self._emitter.value(value, self._depth + 1), self._after(target))

    def _close_at(self, at: int) -> None:
        """The closing bracket, or the mark that stands for it, behind white space."""
        self._byte_at(at, "]")
        if self._automaton.is_marked:
            self._byte_at(at, marks.CLOSE)

    def _byte_at(self, at: int, close: str) -> None:
        line = self._emitter.layout.line(self._depth)
        self._rows.byte(self._emitter.literal(at, line), close, self._end)

    def _separated(self, at: int, comma: str) -> int:
        """The state behind a comma, or its mark, where white space before it has been read."""
        emitter, layout = self._emitter, self._emitter.layout
        if layout.is_free:
            return emitter.blanks(emitter.literal(at, comma))
        return emitter.literal(at, layout.comma.replace(",", comma) + layout.line(self._depth + 1))
