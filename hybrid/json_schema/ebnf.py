"""The rules of a grammar as EBNF text, for XGrammar.

What: `ebnf_of` writes each state as a rule that reads something and continues with the rule of the next
state.
When: for the strategies that run in XGrammar, and for tests: XGrammar's masks for this text are compared
with those of the classifier.
Limits: there is a rule for each state, so the text of a large schema is long.
"""

from __future__ import annotations

from hybrid.json_schema.rows import BYTES, CALL, EMPTY, Rows

_SURROGATES = (0xD800, 0xDFFF)


def least_bytes(rows: Rows) -> int:
    """Return about how many bytes XGrammar's serialised form of a grammar takes at least.

    For 150 schemas it was 0.94 to 1.17 times 53 bytes for each state and 48 for each edge.
    """
    n_states, n_edges = rows.sizes
    return 50 * n_states + 45 * n_edges


def ebnf_of(rows: Rows, root: int) -> str:
    """Return the text of a grammar; its first rule is named root."""
    edges: dict[int, list[tuple[int, int, int, int]]] = {}
    for source, kind, a, b, target in rows.table().tolist():
        edges.setdefault(source, []).append((kind, a, b, target))
    lines = [f"root ::= {_rule(root)}"]
    written: set[int] = set()
    todo = [root]
    visited = {root}

    def call(rule: int) -> str:
        if rule not in visited:
            visited.add(rule)
            todo.append(rule)
        return _rule(rule)

    while todo:
        rule = todo.pop()
        repeat = rows.repeats.get(rule)
        if repeat is not None:
            most = "" if repeat.most is None else str(repeat.most)
            lines.append(f"{_rule(rule)} ::= {call(repeat.unit)}{{{repeat.least},{most}}}")
            continue
        begin, end = -1 - 2 * rule, -2 - 2 * rule
        lines.append(f"{_rule(rule)} ::= {_state(begin)}")
        states = [begin]
        while states:
            state = states.pop()
            if state in written:
                continue
            written.add(state)
            parts = []
            for kind, a, b, target in edges.get(state, ()):
                read = "" if kind == EMPTY else call(a) if kind == CALL else _characters(a, b, kind == BYTES)
                after = "" if target == end else _state(target)
                parts.append(f"{read} {after}".strip() or '""')
                if target != end and target not in written:
                    states.append(target)
            lines.append(f"{_state(state)} ::= {' | '.join(dict.fromkeys(parts)) if parts else _NOTHING}")
    if any(_NOTHING in line for line in lines):
        lines.append(f"{_NOTHING} ::= [a] {_NOTHING}")
    return "\n".join(lines) + "\n"


_NOTHING = "nothing"


def _rule(rule: int) -> str:
    return f"rule_{rule}"


def _state(state: int) -> str:
    return f"s{state}" if state >= 0 else f"begin_{-state}"


def _characters(low: int, high: int, is_byte: bool) -> str:
    """Return a character class, without surrogates."""
    first, last = _SURROGATES
    parts = [(low, min(high, first - 1)), (max(low, last + 1), high)] if not is_byte else [(low, high)]
    if low > last or high < first:
        parts = [(low, high)]
    return f"[{''.join(_range(a, b) for a, b in parts if a <= b)}]"


def _range(low: int, high: int) -> str:
    return _character(low) if low == high else f"{_character(low)}-{_character(high)}"


def _character(code: int) -> str:
    if 0x30 <= code <= 0x39 or 0x41 <= code <= 0x5A or 0x61 <= code <= 0x7A:
        return chr(code)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
