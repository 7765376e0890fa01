"""The rules of a grammar as EBNF text, for XGrammar.

What: `ebnf_of` writes each state as a rule that reads something and continues with the rule of the next
state. A state that is entered in one place only, and leads to one state only, is written there.
When: for the strategies that run in XGrammar, and for tests: XGrammar's masks for this text are compared
with those of the classifier.
Limits: there are about as many rules as states, so the text of a large schema is long.
"""

from __future__ import annotations

from collections import Counter

from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.rows import CALL, EMPTY, Rows

_SURROGATES = (0xD800, 0xDFFF)

_EDGE = 6
"""For each edge, a text has about this many characters, or more. In a long listed text, each edge is a single
character, but takes no less memory here."""


Edge = tuple[int, int, int, int]
"""What is read (type, and two numbers), and the next state."""


def ebnf_of(rows: Rows, root: int, most: int | None = None) -> str | None:
    """Return the text of a grammar; its first rule is named root. None: it has more than about `most`
    characters."""
    edges: dict[int, list[Edge]] = {}
    table = rows.table()
    if most is not None and len(table) > most // _EDGE:
        return None
    for source, kind, a, b, target in table.tolist():
        edges.setdefault(source, []).append((kind, a, b, target))
    alternatives = {state: _alternatives(found) for state, found in edges.items()}
    entered = Counter(target for found in alternatives.values() for _, target in found)
    lines = [f"root ::= {_rule(root)}"]
    written: set[int] = set()
    todo = [root]
    visited = {root}
    size, has_dead_ends = 0, False

    def word(read: str | int) -> str:
        if isinstance(read, str):
            return read
        if read not in visited:
            visited.add(read)
            todo.append(read)
        return _rule(read)

    while todo:
        rule = todo.pop()
        repeat = rows.repeats.get(rule)
        if repeat is not None:
            bound = "" if repeat.most is None else str(repeat.most)
            lines.append(f"{_rule(rule)} ::= {word(repeat.unit)}{{{repeat.least},{bound}}}")
            continue
        begin, end = -1 - 2 * rule, -2 - 2 * rule
        lines.append(f"{_rule(rule)} ::= {_state(begin)}")
        states = [begin]
        while states:
            state = states.pop()
            if state in written:
                continue
            check_deadline()
            written.add(state)
            size += len(lines[-1])
            if most is not None and size > most:
                return None
            parts = []
            for read, target in alternatives.get(state, ()):
                words = [word(read)]
                while (
                    target not in (begin, end) and entered[target] == len(alternatives.get(target, ())) == 1
                ):
                    [(read, target)] = alternatives[target]
                    words.append(word(read))
                if target != end:
                    words.append(_state(target))
                    states.append(target)
                parts.append(" ".join(filter(None, words)).replace('" "', "") or '""')
            has_dead_ends |= not parts
            lines.append(f"{_state(state)} ::= {' | '.join(dict.fromkeys(parts)) or _NOTHING}")
    if has_dead_ends:
        lines.append(f"{_NOTHING} ::= [a] {_NOTHING}")
    return "\n".join(lines) + "\n"


_NOTHING = "nothing"


def _rule(rule: int) -> str:
    return f"rule_{rule}"


def _state(state: int) -> str:
    return f"s{state}" if state >= 0 else f"begin_{-state}"


def _alternatives(edges: list[Edge]) -> list[tuple[str | int, int]]:
    """What a state reads, a character class, a character or the number of a rule, and the next state.
    Characters that lead to the same state are one class."""
    check_deadline()
    found: dict[tuple[str | int, int], None] = {}
    ranges: dict[int, list[tuple[int, int]]] = {}
    for kind, a, b, target in edges:
        if kind == EMPTY:
            found["", target] = None
        elif kind == CALL:
            found[a, target] = None
        elif not _SURROGATES[0] <= a <= b <= _SURROGATES[1]:  # these are no characters
            ranges.setdefault(target, []).append((a, b))
    return [*((_class(tuple(some)), target) for target, some in ranges.items()), *found]


@cached(4096)
def _class(ranges: tuple[tuple[int, int], ...]) -> str:
    """Return a character class without surrogates; a single character as a text."""
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return f'"{_character(ranges[0][0])}"'
    first, last = _SURROGATES
    parts = [part for a, b in ranges for part in ((a, min(b, first - 1)), (max(a, last + 1), b))]
    return (
        f"[{''.join('-'.join(map(_character, dict.fromkeys(part))) for part in parts if part[0] <= part[1])}]"
    )


def _character(code: int) -> str:
    if 0x30 <= code <= 0x39 or 0x41 <= code <= 0x5A or 0x61 <= code <= 0x7A:
        return chr(code)
    # not \x: it takes all hexadecimal digits that follow
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
