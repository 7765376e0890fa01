"""The example of section 12 of docs/theory.md, computed: a Lark grammar, its lexer and its parser, as tables.

What: what the lexer has emitted after some texts, and may emit from there on; and what the parser does with
sequences of terminals when only the top of its stack is known. `python -m tests.theory_lark_example` prints
both.
When: `tests/test_theory_example.py` compares the page with it. If a table changes, change the page, too.
Limits: a state of the parser has the name of the symbol that leads to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import lark

from equivalence.lark.lalr.machine import read_machine
from equivalence.lark.lexer.machine import build_lexer

GRAMMAR = """start: "let" NAME "=" value
value: NUMBER | NAME | "(" value ")"
NAME: /[a-z]+/
NUMBER: /[0-9]+(\\.[0-9]+)?/
%ignore " "
"""
BUILT = lark.Lark(GRAMMAR, parser="lalr", lexer="basic")
LEXER = build_lexer(BUILT)
PARSER = read_machine(BUILT, LEXER.terminals)
TEXTS = ["l", "let", "lets", "let ", "let x=1", "let x=1.", "let x=1.5)"]


def lexer_table() -> str:
    """What the lexer has emitted after each text, and its continuations."""
    lines = ["| text | emitted | may be emitted from here on | at the end of the text |", "|---|---|---|---|"]
    for text in TEXTS:
        state, emitted = 0, []
        for byte in text.encode():
            emitted += named(LEXER.sequences[LEXER.emitted[state, byte]])
            state = int(LEXER.step[state, byte])
        coming = [" ".join(named(one)) or "nothing" for one in LEXER.continuations[state]]
        at_end = LEXER.at_end[state]
        ending = " ".join(named(LEXER.sequences[at_end])) or "nothing" if at_end >= 0 else "an error"
        lines.append(f"| `{text}` | {' '.join(emitted)} | {' or '.join(coming)} | {ending} |")
    return "".join(line + "\n" for line in lines)


def named(sequence: Sequence[int]) -> list[str]:
    return [PARSER.terminals[terminal] for terminal in sequence]


def state_after(terminal: str) -> int:
    """The state to which a terminal leads."""
    (state,) = (PARSER.shifted_by == PARSER.terminals.index(terminal)).nonzero()[0].tolist()
    return int(state)


def reading(states: list[int], sequence: list[str]) -> str:
    """What a sequence does on the known upper part of a stack, which is given from its bottom."""
    states = list(states)
    for place, terminal in enumerate(sequence):
        while True:
            action = int(PARSER.action[states[-1], PARSER.terminals.index(terminal)])
            if action >= 0:
                break
            length, origin = int(PARSER.rule_length[-action - 1]), int(PARSER.rule_origin[-action - 1])
            if length >= len(states):
                more, rest = length - len(states), " ".join(sequence[place:])
                return f"({more}, {PARSER.nonterminals[origin]}, {rest})"
            del states[len(states) - length :]
            states.append(int(PARSER.goto[states[-1], origin]))
        if action == 0:
            return "dies"
        states.append(action - 1)
    return "taken"


def parser_table() -> str:
    """Sequences on the state after a number, and what is left of them on the states below it."""
    value = PARSER.nonterminals.index("value")
    lines = ["| sequence | on `NUMBER` | then on `EQUAL` | then on `LPAR` |", "|---|---|---|---|"]
    for sequence in (["RPAR"], ["RPAR", "RPAR"], ["$END"], ["NAME"]):
        cells = [reading([state_after("NUMBER")], sequence)]
        for below in map(state_after, ("EQUAL", "LPAR")):
            after = int(PARSER.goto[below, value])
            cells.append(reading([below, after], sequence) if cells[0] != "dies" else "")
        lines.append(f"| {' '.join(sequence)} | {' | '.join(cells)} |")
    return "".join(line + "\n" for line in lines)


TABLES = [lexer_table(), parser_table()]

if __name__ == "__main__":
    print(GRAMMAR, *TABLES, sep="\n")
