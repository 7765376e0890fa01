"""What to write instead of a notation that XGrammar's EBNF does not have.

What: `explained` adds advice to a message of XGrammar's parser, from the message and the text at the place
that it names. A character that is not ASCII is named: XGrammar names only its first byte.
When: if XGrammar refuses an EBNF text. Most such texts are in a relative of the notation: GBNF of llama.cpp,
BNF, the EBNF of ISO or W3C, or the syntax of other parsers.
Limits: columns are XGrammar's, which counts bytes. Of long names and lines, only a part is read.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

_FAULT = re.compile(r"EBNF (?:lexer|parser) error at line (\d+), column (\d+): (.{0,500})", re.DOTALL)
_RULE = re.compile(r"(?m)^[ \t]*([A-Za-z_][\w.-]*)[ \t]*::=")
_NO_ROOT = re.compile(r'The root rule with name "([^"]*)" is not found')
_UNDEFINED = re.compile(r'Rule "([^"]*)" is not defined')

NEAR = 100
"""Most characters that are read on each side of a place, and of a name."""

COMMENTS = "comments begin with #"
QUOTES = 'texts are written in double quotes: "a"'
RULES = "rules are written name ::= ..."
REPEATS = 'put what is repeated in parentheses: ("a"+)?'

ADVICE = (
    (r"Expect element, but got \*\n.*\(\0", COMMENTS),
    (r"Expect rule name\n.*\0\(\*", COMMENTS),
    (r"Unexpected character: /\n.*\0/[/*]", COMMENTS),
    (r"Unexpected character: /\n", 'a regular expression is written Regex("...")'),
    (r"Unexpected character: ;\n", f"nothing ends a rule, and {COMMENTS}"),
    (r"Unexpected character: '\n|\n.*\0[\u2018-\u201f\xab\xbb]", QUOTES),
    (r"\n.*\0\ufeff", 'remove the byte order mark; encoding="utf-8-sig" reads a file without it'),
    (r"\n.*\0[^\S \t\r\n]", "only spaces, tabs and line ends may separate the parts of a grammar"),
    (r"\n.*\0[^\W\d_\x00-\x7f]", "names of rules consist of a-z, A-Z, 0-9, ., - and _"),
    (r"Unexpected character: !\n.*\0!<", "any token but one is written ExcludeToken(5), with its id"),
    (r"Unexpected character: <\n.*\0<\[", "a token is written Token(5), with its id"),
    (r"Unexpected character: <\n", "names of rules have no <>, and a token is written Token(5), with its id"),
    (r"Unexpected character: \\\n", "a backslash is allowed within quotes and brackets only"),
    (r"#x[0-9A-Fa-f]+[^\n]*\0", '#x41 is written "\\x41" or [\\x41]'),
    (r"Expect element, but got(?: [|)]| [A-Za-z_][\w.-]*)?\n", 'an empty alternative is written ""'),
    (r"Expect element, but got ,\n", "the parts of a sequence are written side by side, without commas"),
    (r"Expect element, but got \{\n.*(?:=|[|(])\s*\0", 'a repeat is written ("a")*, an option ("a")?'),
    (r"Expect element, but got [*+?{]\n.*[*+?}]\s*\0", REPEATS),
    (r"Expect integer, but got ,\n.*\{\s*\0", "a repeat without a lower limit is written {0,5}"),
    (r"Expect \" in string literal|should not contain newline",
     "quotes and brackets are closed on the same line; a line end in quotes or brackets is written \\n; in "
     'Python, use a raw string: r"..."'),
    (r"Character class escape\b.*\n.*\0\\[dD]", "a digit is written [0-9], any other character [^0-9]"),
    (r"Character class escape\b", "write the characters instead: [a-zA-Z0-9_] for \\w, [ \\t\\n\\r] for \\s"),
    (r"Invalid escape sequence\n.*\0\\[^\w\s]", "this character needs no backslash"),
    (r'Rule "\." is not defined', "any character is written [\\x00-\\U0010ffff], any but a line end [^\\n]"),
    (r'Rule "i" is not defined\n.*"\0', "to allow a letter in any case, write both: [aA]"),
    (r"\n\s*[\w.-]+>?\s*[-=]?\0[:>]", RULES),
    (r"should be at the beginning of the line",
     "a rule begins on a line of its own, and its name does not begin with a digit"),
)  # fmt: skip
"""Patterns of a message, a line end, and the line of the text, with a zero byte at the place; and what to
write. The first pattern that is found counts."""


def explained(message: str, text: str) -> str | None:
    """Return a message of XGrammar's parser with advice; None if there is nothing to add.

    Args:
        message: XGrammar's message.
        text: the text that was refused.
    """
    fault = _FAULT.search(message)
    if fault is None:
        return None
    message, said = fault[0].strip(), fault[3].strip()
    lines = text.split("\n")
    number, column = int(fault[1]) - 1, int(fault[2]) - 1
    line = lines[number].encode("utf-8", "replace") if number < len(lines) else b""
    before, after = (part.decode("utf-8", "replace") for part in (line[:column], line[column:]))
    is_foreign = after != "" and not after[0].isascii() and said.startswith("Unexpected character: ")
    if is_foreign:
        message = f"{message[: -len(said)]}Unexpected character: {after[0]!r}"
    advice = _advice(said, f"{before[-NEAR:]}\0{after[:NEAR]}", text)
    if advice is None:
        return message if is_foreign else None
    return f"{message} ({advice})"


def _advice(said: str, place: str, text: str) -> str | None:
    names = [name for name in dict.fromkeys(_RULE.findall(text)) if len(name) <= NEAR][:200]
    missing = _NO_ROOT.search(said)
    if missing is not None:
        return f'name a rule "{missing[1]}", or pass root_rule_name={names[0]!r}' if names else RULES
    for pattern, advice in ADVICE:
        if re.search(pattern, f"{said}\n{place}") is not None:
            return advice
    undefined = _UNDEFINED.search(said)
    if undefined is None:
        return None
    if re.search(rf"(?m)^[ \t]*{re.escape(undefined[1])}[ \t]*(?:=|:|->)", text) is not None:
        return RULES
    near = get_close_matches(undefined[1][:NEAR], names, 1)
    return f"did you mean {near[0]!r}?" if near else None
