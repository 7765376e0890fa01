"""Random grammars, regular expressions and Lark grammars, for `tests.robustness.fuzz`.

What: each function draws the source of one grammar from a `random.Random`, and texts to cut tokens from.
When: by `inputs`; JSON schemas and structural tags are in `schemas`.
Limits: small grammars: at most five rules. Repeats over XGrammar's threshold of 128 are rare and not nested,
and nothing that counts or excludes tokens is recursive: XGrammar takes minutes, or all memory, for either.

What is drawn often is what has been wrong before: classes whose ends lie at the borders of the lengths of
UTF-8, negated and overlapping ones, bounded repeats of them, rules that may be empty, recursion of all kinds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """The source of one grammar.

    Attributes:
        kind: what was drawn: "ebnf", "token_ids", "attributes", "json_schema", "regex", "structural_tag" or
            "lark".
        parser: what reads the source: a kind of `bench.cases.Case`, or "lalr" for Lark itself.
        source: the text.
        options: of that parser.
        texts: what tokens are cut from.
        ids: so many ids of the vocabulary may be named.
        counts: what a matcher takes may depend on the tokens taken and the masks filled before.
        recursive: rules may call themselves.
    """

    kind: str
    parser: str
    source: str
    texts: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    ids: int = 0
    counts: bool = False
    recursive: bool = True

    @property
    def bounded(self) -> bool:
        """Whether surely no text is forced without end."""
        return not self.recursive and re.search(r"[*+]|,\}", self.source) is None


CHARACTERS = tuple(
    "abz \n\t\fAP_,{\x7féàöÿß\u044f\u0430\u07c0\u07ff\u0800€中丁\ud7ff\ue000\uffff\U00010000😀\U0010ffff"
    '\x80\x0009"\\-]^'
)
"""Letters that collide, marks of the notation, and the first and last characters of each length of UTF-8."""

REPEATS = (
    *("",) * 6, "?", "*", "+", "{1}", "{2}", "{5}", "{0,2}", "{1,3}", "{2,}", "{4,7}", "{3,}",
)  # fmt: skip
LARGE_REPEATS = ("{0,140}", "{129}", "{130,}", "{100,200}", "{0,128}")


def escaped(character: str, special: str) -> str:
    """A character in a literal or class of EBNF."""
    number = ord(character)
    if character in special:
        return "\\" + character
    if 32 <= number < 127:
        return character
    if number < 128:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def quoted(text: str) -> str:
    """A literal of EBNF."""
    return '"' + "".join(escaped(item, '"\\') for item in text) + '"'


def in_class(character: str) -> str:
    """A character in a class of EBNF."""
    return "\\x5b" if character == "[" else escaped(character, "\\]-^")


def character_class(
    rng: random.Random, texts: list[str], write: Callable[[str], str] = in_class,
    characters: Sequence[str] = CHARACTERS,
) -> str:  # fmt: skip
    """A class of one to three ranges, which may overlap; its ends and their neighbours become texts."""
    parts = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        low, high = sorted((rng.choice(characters), rng.choice(characters)))
        if rng.random() < 0.35:
            high = low
        parts.append(write(low) if low == high else f"{write(low)}-{write(high)}")
        near = (ord(low) - 1, ord(low), ord(low) + 1, ord(high) - 1, ord(high), ord(high) + 1)
        texts += [chr(item) for item in near if 0 <= item < 0x110000 and not 0xD800 <= item < 0xE000]
    return f"[{'^' if rng.random() < 0.4 else ''}{''.join(parts)}]"


class Ebnf:
    """Rules that call one another freely.

    Args:
        ids: what may be named.
        recursive: rules may call themselves and rules before them.
        excluded: some ids are excluded.

    Attributes:
        texts: literals, and characters at the ends of classes.
    """

    characters: Sequence[str] = CHARACTERS
    repeats: Sequence[str] = REPEATS
    large_repeats: Sequence[str] = LARGE_REPEATS
    kinds = "ttcccrrgg"
    """Of elements: texts, classes, rules and groups."""

    def __init__(
        self, rng: random.Random, ids: range = range(0), recursive: bool = True, excluded: bool = False
    ) -> None:
        self.rng, self.ids, self.recursive, self.excluded = rng, ids, recursive, excluded
        self.names = ["root", "p", "q", "r", "s"][: rng.randint(1, 5)]
        self.texts: list[str] = []
        self.level = 0

    def rules(self, attribute: Callable[[], str] = str) -> str:
        lines = []
        for level, name in enumerate(self.names):
            self.level = level
            lines.append(f"{name}{attribute() if level else ''} ::= {self.choice(0)}\n")
        return "".join(lines)

    def choice(self, depth: int) -> str:
        return " | ".join(self.sequence(depth) for _ in range(self.rng.randint(1, 3 if depth == 0 else 2)))

    def sequence(self, depth: int) -> str:
        length = self.rng.choice([0, 1, 1, 2, 2, 3, 4])
        return '""' if length == 0 else " ".join(self.element(depth) for _ in range(length))

    def element(self, depth: int) -> str:
        rng = self.rng
        if self.ids and rng.random() < 0.2:
            named = ", ".join(str(rng.choice(self.ids)) for _ in range(rng.choice([1, 1, 2])))
            return f"{'ExcludeToken' if self.excluded and rng.random() < 0.5 else 'Token'}({named})"
        kind = rng.choice(self.kinds)
        callable_names = self.names if self.recursive else self.names[self.level + 1 :]
        if kind == "g" and depth < 2:
            body = f"({self.choice(depth + 1)})"
        elif kind == "r" and callable_names:
            body = rng.choice(callable_names)
        elif kind == "c":
            body = character_class(rng, self.texts, characters=self.characters)
            if depth == 0 and rng.random() < 0.06:
                return body + rng.choice(self.large_repeats)
        else:
            text = "".join(rng.choice(self.characters) for _ in range(rng.choice([1, 1, 2, 3])))
            self.texts.append(text)
            body = quoted(text)
        return body + (rng.choice(self.repeats) if depth == 0 or rng.random() < 0.5 else "")


def draw_ebnf(rng: random.Random) -> Drawn:
    """Rules without ids or counts; in part rounds of a choice of classes."""
    writer = Ebnf(rng)
    if rng.random() < 0.1:
        classes = [character_class(rng, writer.texts) for _ in range(3)]
        rounds = f"{{{rng.randint(2, 6)}}}"
        source = f"root ::= (({classes[0]})|{classes[1]}{rng.choice(REPEATS)}{classes[2]}){rounds}\n"
    else:
        source = writer.rules()
    return Drawn("ebnf", "ebnf", source, tuple(writer.texts))


def draw_token_ids(rng: random.Random, first: int = 0) -> Drawn:
    """Rules that name ids from a first one on; not recursive where ids are excluded."""
    excluded = rng.random() < 0.4
    ids = range(first, first + rng.choice([2, 5, 13]))
    writer = Ebnf(rng, ids, recursive=not excluded, excluded=excluded)
    source = writer.rules()
    if "Token(" not in source:
        source = source.replace("root ::= ", f"root ::= Token({rng.choice(ids)}) | ", 1)
    return Drawn("token_ids", "ebnf", source, tuple(writer.texts), ids=ids.stop, recursive=not excluded)


def draw_attributes(rng: random.Random) -> Drawn:
    """Rules with budgets, lazy ones, captures and temperatures, in EBNF or XGrammar's dialect of Lark."""
    if rng.random() < 0.3:
        return _draw_dialect(rng)
    while len((writer := Ebnf(rng, recursive=False)).names) < 2:
        pass

    def attribute() -> str:
        if rng.random() < 0.3:
            return ""
        name = rng.choice(["max_tokens"] * 2 + ["max_chars"] * 2 + ["lazy", "capture", "temperature"])
        values = {"max_tokens": rng.randint(1, 4), "max_chars": rng.randint(1, 6), "temperature": 0.5}
        return f"[{name}={values[name]}]" if name in values else f"[{name}]"

    source = writer.rules(attribute)
    return Drawn("attributes", "ebnf", source, tuple(writer.texts), counts=True, recursive=False)


def _draw_dialect(rng: random.Random) -> Drawn:
    words = [rng.choice(["<", "<e", "!", "ab", "b", "é", "z"]) for _ in range(4)]
    attributes = [
        f"max_tokens={rng.randint(1, 3)}", f"max_chars={rng.randint(1, 5)}", "lazy", f'stop="{words[0]}"',
        f'suffix="{words[0]}"', "capture", "temperature=0.7",
    ]  # fmt: skip
    chosen = ", ".join(rng.sample(attributes, rng.choice([1, 1, 1, 2])))
    bodies = [
        f'("a"|"b")* "{words[1]}"', "TEXT", f'TEXT "{words[1]}"', "/([a-zé]* )+/", "/[a-zé]+ /",
        f'AB+ "{words[1]}"',
    ]  # fmt: skip
    body = rng.choice(bodies)
    starts = [f'head "{words[2]}"', f'(head "{words[2]}")* "{words[3]}"', '"a" head | "a" "a" head']
    start = rng.choice([*starts, f'head+ "{words[2]}"'])
    source = f"start: {start}\nhead[{chosen}]: {body}\nAB: /a|b/\nTEXT: /(\\n|.)*/\n"
    texts = (*words, "a", "b", "é", " ", "\n", "ab ", "e", "z!")
    return Drawn("attributes", "lark", source, texts, counts=True, recursive=False)


def draw_regex(rng: random.Random) -> Drawn:
    """A regular expression in the dialect of XGrammar."""
    texts: list[str] = ["0", "9", "_", " ", "a"]

    def write(character: str, special: str) -> str:
        is_wide = ord(character) > 127 and character not in special
        return f"\\u{{{ord(character):x}}}" if is_wide else escaped(character, special)

    def atom(depth: int) -> str:
        kind = rng.choice("ttccsg")
        if kind == "g" and depth < 2:
            return f"({rng.choice(['', '?:'])}{choice(depth + 1)})"
        if kind == "s":
            return rng.choice(["\\d", "\\w", "\\s", ".", "\\D", "\\W"])
        if kind == "c":
            return character_class(rng, texts, lambda item: write(item, "\\]-^["))
        text = rng.choice(CHARACTERS)
        texts.append(text)
        return write(text, '"\\-]^.*+?()[{}|$/')

    def choice(depth: int) -> str:
        parts = [
            "".join(
                atom(depth) + (rng.choice(REPEATS) if rng.random() < 0.6 else "")
                for _ in range(rng.choice([0, 1, 2, 2, 3]) if depth else rng.randint(1, 4))
            )
            for _ in range(rng.randint(1, 2))
        ]
        return "|".join(parts)

    pattern = choice(0)
    return Drawn("regex", "regex", f"^{pattern}$" if rng.random() < 0.2 else pattern, tuple(texts))


TERMINALS = (
    ("NAME", "/[a-c]+/", "abc"), ("KEY", '"ab"', "ab"), ("WORD", "/[ab]+|c/", "abc"),
    ("OTHER", '"a" "c"', "ac"), ("NUMBER", "/[01]+(\\.[01]+)?/", "01."), ("ZERO", '"0"', "0"),
    ("TEXT", '/"[^"a]*"/', '"b'), ("E", "/[é-ö]+/", "éö"), ("LAZY", "/a.*?b/", "ab"), ("DOT", '"."', "."),
    ("UP", '"ab"i', "aB"), ("BOTH", "/[a-cé]{2,3}/", "acé"),
)  # fmt: skip
"""Terminals that overlap, each with characters of it."""


def draw_lark(rng: random.Random) -> Drawn:
    """A grammar for Lark's own LALR parser; the texts are the characters that matter."""
    terminals = rng.sample(TERMINALS, rng.randint(2, 3))
    names = [name for name, _, _ in terminals]
    ignored = rng.random() < 0.5
    rules = ["start", *("one", "two", "three")[: rng.randint(0, 3)]]
    lines = []
    for rule in rules:
        bodies = set()
        for _ in range(rng.randint(1, 3)):
            symbols = rng.choices([*names, *names, *rules], k=rng.choice([0, 1, 1, 2, 2, 3]))
            bodies.add(" ".join(symbol + rng.choice(["", "", "", "", "?", "*", "+"]) for symbol in symbols))
        lines.append(f"{rule}: " + " | ".join(sorted(bodies)))
    for name, body, _ in terminals:
        priority = rng.choice(["", "", "", ".1", ".2"])
        lines.append(f"{name}{priority}: {body}")
    alphabet = dict.fromkeys(letter for _, _, letters in terminals for letter in letters)
    if ignored:
        lines.append('%ignore " "')
        alphabet[" "] = None
    if not "".join(alphabet).isascii():
        alphabet["à"] = None  # what a cut character may become besides those that terminals know
    return Drawn("lark", "lalr", "\n".join(lines) + "\n", tuple(alphabet))
