"""An Earley parser that reads a text by the rules of its grammar, to find names for where it is.

What: an `EarleyParser` has, for each byte, all places in the rules at which a parser may be, each with the
chain of calling rules. These are Earley's sets (An efficient context-free parsing algorithm, 1970), with
callers as a graph (Tomita, 1987).
When: used by `hybrid.explain.explainer`. Asking at several positions of a text costs no more than reading it
once.
Limits: at most `MOST_PLACES` places, because this is Python, and only finds words: 4 places and 14 us for
each byte of JSON, 50 places and 260 us for a C-like language. Above that, `Unexplained` is raised. Characters
are read as UTF-8.

Rejected: using the states of the network that decides masks, which are merged across rules and have no names;
and XGrammar's printed states, which number the parts of automata that XGrammar has made itself.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from equivalence.arrays.ranges import Ranges
from equivalence.deadline import Deadline
from hybrid.explain.characters import WHITE_SPACE, first_bytes, notation
from hybrid.explain.explanation import Expected, Located, Rest
from hybrid.explain.rules import BYTE, CALL, CLASS, EMPTY, LITERAL, REPEAT, Rules, TimeUp, Unexplained

MOST_PLACES = 600_000
"""Most places in all sets of a text: at most 3 s and 100 MB."""

DEEPEST = 400
"""Most rules of a chain that are followed or named."""

BETWEEN_CHECKS = 256
"""Places between two checks of the clock, about 2 ms."""

MOST_RULES = 8
"""Most names of rules for one expected thing."""


class Frame:
    """A rule that was called at a byte, and the places that wait for its end."""

    __slots__ = ("begun", "callers", "is_empty", "rule")

    def __init__(self, rule: int, begun: int) -> None:
        self.rule, self.begun = rule, begun
        self.callers: dict[Place, None] = {}
        self.is_empty = False


class Place(NamedTuple):
    """A place in a rule at which the parser may be.

    Attributes:
        node: a node of the rule's automaton.
        edge: the edge of that node that was started; -1 if none was.
        done: how much of that edge is done: bytes of a literal, the start of a character, or calls of a
            repeat.
        frame: the rule and its callers.
    """

    node: int
    edge: int
    done: int | bytes
    frame: Frame


Set: TypeAlias = "dict[Place, None]"


class Read(NamedTuple):
    """What is known after a byte: the set of places, and how many places it and all sets before it took."""

    places: Set
    n_taken: int


class EarleyParser:
    """Reads one text, byte by byte; `back_to` takes bytes back.

    Args:
        rules: the rules of the grammar.

    It raises `Unexplained`, like `Rules.of`, when it first calls a rule without an automaton.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._deadline = Deadline()
        self._sets: list[Read] = []  # before the text, and after each of its bytes
        self._frames: dict[int, Frame] = {}
        self._root = Frame(rules.root, 0)

    @property
    def length(self) -> int:
        """Number of bytes read."""
        return max(len(self._sets) - 1, 0)

    def back_to(self, length: int) -> None:
        """Take bytes back."""
        del self._sets[length + 1 :]

    def read(self, text: bytes, deadline: Deadline) -> None:
        """Read more text.

        Raises:
            TimeUp: the time ran out. `length` says how far it got; call again with the rest.
            Unexplained: the text is too long, or the rules do not allow it, because the grammar has other
                features.
        """
        self._deadline = deadline
        if not self._sets:
            self._root = Frame(self._rules.root, 0)
            self._frames = {self._rules.root: self._root}
            self._sets.append(self._closed([Place(self._rules.of(self._rules.root)[0], -1, 0, self._root)]))
        for byte in text:
            found = []
            for number, place in enumerate(self._sets[-1].places):
                if number % BETWEEN_CHECKS == 0:
                    self._check_time()
                found += self._after(place, byte)
            if not found:
                raise Unexplained(
                    "parsing by rules alone does not accept this text (XGrammar reads it differently)"
                )
            self._frames = {}
            self._sets.append(self._closed(found))

    def _check_time(self) -> None:
        if self._deadline.is_over:
            raise TimeUp

    def found(self, deadline: Deadline) -> Located:
        """What may come next, without duplicates, keys and literals first; and the rules that contain the
        place.

        Raises:
            TimeUp: the time ran out.
        """
        self._deadline = deadline
        found: dict[tuple[str, str, int], Expected] = {}
        rest: dict[Expected, Rest] = {}
        for place in self._sets[-1].places:
            self._check_time()
            for number, edge in enumerate(self._rules.edges[place.node]):
                if edge.kind > BYTE or place.edge not in (-1, number):
                    continue
                one = self._described(place, number)
                one = found.setdefault((one.kind, one.text, one.read), one)
                if edge.kind == LITERAL:
                    rest[one] = edge.what[one.read :]
                    continue
                firsts: frozenset[int] | None = None  # nothing is known inside of a character
                if edge.kind == BYTE:
                    firsts = frozenset(range(edge.what[0], edge.what[1] + 1))
                elif place.edge < 0:
                    firsts = first_bytes(*edge.what)
                known = rest.get(one, frozenset())
                rest[one] = known | firsts if isinstance(known, frozenset) and firsts is not None else None
        # literals in rules that also read white space start comments in most grammars, so they come last
        gaps = {one.rules[0] for one in rest if one.text == WHITE_SPACE}
        order = {"key": 0, "literal": 1}
        expected = sorted(
            rest, key=lambda one: (order.get(one.kind, 2), one.rules[0] in gaps, one.text == WHITE_SPACE)
        )
        return Located(expected, rest, self._names_read())

    def _names_read(self) -> tuple[str, ...]:
        """The names of the rules that contain the place, outermost first, as far as all chains of calls
        agree; the innermost `DEEPEST` of them."""
        ends, called = self._calls_read()
        level = dict.fromkeys([self._root] if ends else [])
        names: list[str] = []
        while level:
            self._check_time()
            name = self._rules.name_of(next(iter(level)).rule)
            names.append(name)
            below: dict[Frame, None] = {}
            todo = list(level)
            for frame in todo:  # those with the same name are added meanwhile
                for one in called.get(frame, ()):
                    if self._rules.name_of(one.rule) != name:
                        below[one] = None
                    elif one not in level:
                        level[one] = None
                        todo.append(one)
            if not ends.isdisjoint(level) or len({self._rules.name_of(one.rule) for one in below}) > 1:
                break
            level = below
        return tuple(names[-DEEPEST:])

    def _calls_read(self) -> tuple[set[Frame], dict[Frame, dict[Frame, None]]]:
        """The frames at the ends of all chains of calls, without rules of which nothing was read; and for
        each frame of a chain those that it has called."""
        todo = list(dict.fromkeys(place.frame for place in self._sets[-1].places))
        seen = set(todo)
        ends = set(filter(self._is_read, todo))
        called: dict[Frame, dict[Frame, None]] = {}
        for number, frame in enumerate(todo):  # callers are added meanwhile
            if number % BETWEEN_CHECKS == 0:
                self._check_time()
            is_read = self._is_read(frame)
            for above in dict.fromkeys(place.frame for place in frame.callers):
                if is_read:
                    called.setdefault(above, {})[frame] = None
                elif self._is_read(above):
                    ends.add(above)
                if above not in seen:
                    seen.add(above)
                    todo.append(above)
        return ends, called

    def _is_read(self, frame: Frame) -> bool:
        return frame is self._root or frame.begun < self.length

    def _chain(self, frame: Frame) -> tuple[str, ...]:
        """The names of a frame's rule and its callers, innermost first, without equal neighbours."""
        names: list[str] = []
        above: Frame | None = frame
        for _ in range(DEEPEST):
            if above is None or len(names) == MOST_RULES:
                break
            name = self._rules.name_of(above.rule)
            if not names or names[-1] != name:
                names.append(name)
            above = _above(above)
        return tuple(names)

    def _reads(self, place: Place) -> bool:
        edges = self._rules.edges[place.node]
        if place.edge >= 0:
            return edges[place.edge].kind <= BYTE
        return any(edge.kind <= BYTE for edge in edges)

    def _described(self, place: Place, number: int) -> Expected:
        edge = self._rules.edges[place.node][number]
        rules = self._chain(place.frame)
        done = place.done if place.edge >= 0 else 0
        if edge.kind == LITERAL:
            assert isinstance(done, int)
            key = self._rules.key_of(place.node, number)
            if key is not None and done < len(edge.what):
                return Expected("key", key, done, rules)
            return Expected("literal", edge.what.decode("utf-8", "backslashreplace"), done, rules)
        pattern = self._rules.patterns.get(place.frame.rule)
        if pattern is not None:
            return Expected("pattern", pattern, 0, rules)
        if edge.kind == BYTE:
            return Expected("bytes", notation([edge.what]), 0, rules)
        excluded, ranges = edge.what
        return Expected("characters", notation(ranges, excluded), 0, rules)

    def _after(self, place: Place, byte: int) -> list[Place]:
        """The places to which a place leads by a byte."""
        edges = self._rules.edges[place.node]
        if place.edge < 0:
            found = []
            for number, edge in enumerate(edges):
                if edge.kind <= BYTE:
                    done: int | bytes = b"" if edge.kind == CLASS else 0
                    found += self._step(place.node, number, done, place.frame, byte)
            return found
        return self._step(place.node, place.edge, place.done, place.frame, byte)

    def _step(self, node: int, number: int, done: int | bytes, frame: Frame, byte: int) -> list[Place]:
        kind, what, target = self._rules.edges[node][number]
        behind = Place(target, -1, 0, frame)
        if isinstance(done, bytes):
            character = done + bytes([byte])
            if byte < 0x80 if not done else len(character) >= _width(character[0]):
                return [behind] if _is_in(character, *what) else []
            return [Place(node, number, character, frame)] if _width(character[0]) > 1 else []
        if kind == LITERAL:
            if what[done] != byte:
                return []
            return [behind] if done + 1 == len(what) else [Place(node, number, done + 1, frame)]
        return [behind] if what[0] <= byte <= what[1] else []

    def _closed(self, begun: list[Place]) -> Read:
        """The places, and all places to which they lead without reading a byte."""
        found: Set = dict.fromkeys(begun)
        todo = list(found)

        def add(place: Place) -> None:
            if place not in found:
                found[place] = None
                todo.append(place)

        def call(rule: int, back: Place) -> None:
            frame = self._frames.get(rule)
            if frame is None:
                frame = self._frames[rule] = Frame(rule, len(self._sets))
                add(Place(self._rules.of(rule)[0], -1, 0, frame))
            frame.callers[back] = None
            if frame.is_empty:
                add(back)

        edges, n_done = self._rules.edges, 0
        n_before = self._sets[-1].n_taken if self._sets else 0
        while todo:
            if n_done % BETWEEN_CHECKS == 0:
                self._check_time()
                if n_before + len(found) > MOST_PLACES:
                    raise Unexplained(f"parsing the text by rules takes more than {MOST_PLACES:,} places")
            n_done += 1
            place = todo.pop()
            node, number, done, frame = place
            if number >= 0:
                kind, what, target = edges[node][number]
                if kind == REPEAT:
                    rule, least, most = what
                    assert isinstance(done, int)
                    if done >= least:
                        add(Place(target, -1, 0, frame))
                    if most < 0 or done < most:
                        cap = least if most < 0 else most
                        call(rule, Place(node, number, min(done + 1, cap), frame))
                continue
            if node == self._rules.of(frame.rule)[1]:
                if self._frames.get(frame.rule) is frame:
                    frame.is_empty = True
                for back in list(frame.callers):
                    add(back)
            for k, (kind, what, target) in enumerate(edges[node]):
                if kind == EMPTY:
                    add(Place(target, -1, 0, frame))
                elif kind == CALL:
                    call(what, Place(target, -1, 0, frame))
                elif kind == REPEAT:
                    add(Place(node, k, 0, frame))
        return Read({place: None for place in found if self._reads(place)}, n_before + len(found))


def _above(frame: Frame) -> Frame | None:
    """The frame of the first caller; None for the root."""
    for place in frame.callers:
        if place.frame is not frame:
            return place.frame
    return None


def _width(byte: int) -> int:
    """The length of a character, by its first byte."""
    return 1 if byte < 0xC2 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4


def _is_in(character: bytes, excluded: bool, ranges: Ranges) -> bool:
    try:
        code = ord(character.decode())
    except (UnicodeDecodeError, TypeError):
        return False
    return any(first <= code <= last for first, last in ranges) is not excluded
