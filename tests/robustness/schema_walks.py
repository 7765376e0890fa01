"""Random walks under ``semantics="json-schema"``: masks, dead ends, and whether finished texts are valid.

What: compiles the schemas of a folder, in both strict modes, and follows random tokens of each mask until the
text ends. It looks for masks without any token, refused tokens of a mask, and exceptions; at some steps, it
checks that the mask has exactly the tokens that `accept_token` accepts, and stays the same if a part of the
text is taken back and read again; at the end, that the text is valid by ``jsonschema`` with formats asserted.
When: ``python -m tests.robustness.schema_walks --schemas FOLDER --minutes N --seed S``;
`tests/robustness/test_schema_walks.py` walks a little. Tests of unique items and of random schemas use
`Walk`.
Limits: a vocabulary of bytes and some longer tokens. Walks visit few states, and try no instance that masks
do not lead to. ``jsonschema`` computes with floats: there is no verdict on texts with numbers that floats do
not tell apart, or, in schemas with `multipleOf`, do not hold or divide exactly. There is none on texts of
schemas with `format: regex`, which is not asserted.
"""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import workloads
from bench.json_schema.judge import Judge, formats
from hybrid import GrammarCompiler, GrammarMatcher, HybridError, Vocabulary
from tests.matchers import mask_of, taken_by

LONGER = [
    b'","', b'",', b'"]', b'["', b'": ', b'{"', b'"}', b"]}", b'"a"', b"ab", b"true", b"null", b"  ", b"1.0",
    b"1e0", b"-0", b"\\u0061", b"\\ud83d", b"\\/", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"},{", b",1", b"[]",
    b'a","', b'a","a', b"1,1", b"[1,1]", b"[[1],[1]]", b'{"a":', b'":1', b'":1,"', b'{"a":1},{"a":1',
    b'"a":1,"a', b", ", b"abc", b',"a', b',"', b', "a', b",[", b",true", b',{"', b'b"]',
]  # fmt: skip
BYTES = [bytes([byte]) for byte in range(256)]
TOKENS = [*BYTES, *LONGER]
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=STOP)

FREQUENT = [token for token, text in enumerate(TOKENS) if len(text) > 1 or text in b'\\u"0168da3,[]{}:.e-']
"""Tokens that are drawn more often: those of JSON's structure, of numbers and of escapes."""

CLOSING = [TOKENS.index(text) for text in (b'"', b"}", b"]", b'"]', b'"}', b"]}")]
"""Tokens that close what is open in a text."""

LENGTHS = (10, 30, 80, 160)
"""After one of these numbers of steps, a walk closes what is open."""

NOT_ASSERTED = frozenset({"regex"})
"""Known formats that no grammar can check."""

LARGEST_DIVIDED = 2**49
"""Below this, floats hold the fraction of a quotient by a step of 0.1 or more."""


class Inexact(Exception):
    """A float does not represent a number well enough."""


@dataclass
class Found:
    """The findings of the walks."""

    schemas: int = 0
    refused: int = 0
    walks: int = 0
    ended: int = 0
    masks: int = 0
    compared: int = 0
    judged: int = 0
    problems: list[str] = field(default_factory=list)


def read_number(text: str, is_exact: bool) -> float:
    """Read a number.

    Raises:
        Inexact: the float has another value; or, if it need not be exact, other digits than the number.
    """
    value = float(text)
    try:
        if Decimal(text) == Decimal(value if is_exact else repr(value)):
            return value
    except InvalidOperation:  # its exponent has too many digits
        pass
    raise Inexact


def read_integer(text: str, is_divided: bool) -> int:
    """Read an integer.

    Raises:
        Inexact: it is divided as a float, and the quotient may have no fraction because it is so large.
    """
    value = int(text)
    if is_divided and abs(value) >= LARGEST_DIVIDED:
        raise Inexact
    return value


class Walk:
    """Walks along the masks of one grammar.

    Args:
        compiled: the grammar of the schema over `VOCABULARY`.
        compared: the share of steps at which a mask is compared with `accept_token` of each token.
        most_steps: longer walks are left without an end.
    """

    def __init__(
        self, compiled: Any, schema: Any, randomness: random.Random, found: Found,
        compared: float = 0.02, most_steps: int = 1500,
    ) -> None:  # fmt: skip
        self._compiled, self._random, self._found = compiled, randomness, found
        self._compared, self._most_steps = compared, most_steps
        self._judge = None if NOT_ASSERTED & set(formats(schema)) else Judge(schema)
        has_steps = "multipleOf" in json.dumps(schema)
        self._read_number = partial(read_number, is_exact=has_steps)
        self._read_integer = partial(read_integer, is_divided=has_steps)
        self._read: list[int] = []

    @property
    def text(self) -> bytes:
        return b"".join(TOKENS[token] for token in self._read)

    def run(self) -> str:
        """Follow random tokens to the end. Return a description of what is wrong, or an empty text."""
        matcher = GrammarMatcher(self._compiled)
        self._read = []
        length = self._random.choice(LENGTHS)
        for step in range(self._most_steps):
            tokens = mask_of(matcher)
            self._found.masks += 1
            if not tokens:
                return "no token is allowed"
            if self._random.random() < self._compared:
                self._found.compared += 1
                if wrong := {*taken_by(matcher)} ^ {*tokens}:
                    return f"the mask is wrong: {sorted(wrong)[:10]}"
                matcher = self._read_again(matcher)
                if mask_of(matcher) != tokens:
                    return "the mask is another one where a part of the text was read again"
            token = self._choice(tokens, step > length)
            if not matcher.accept_token(token):
                return f"token {token} is in the mask, and is refused"
            if token == STOP:
                self._found.ended += 1
                return self._verdict()
            self._read.append(token)
        return ""

    def _read_again(self, matcher: GrammarMatcher) -> GrammarMatcher:
        """Take a part of the text back and read it again; return this matcher or a fork from before."""
        twin = matcher.fork()
        back = self._random.randrange(len(self._read) + 1)
        matcher.rollback(back)
        for token in self._read[len(self._read) - back :]:
            matcher.accept_token(token)
        return self._random.choice([matcher, twin])

    def _choice(self, tokens: list[int], is_ending: bool) -> int:
        draw = self._random.random()
        if STOP in tokens and (is_ending or draw < 0.2 or len(tokens) == 1):
            return STOP
        texts = [token for token in tokens if token != STOP]
        preferred = CLOSING if is_ending else FREQUENT
        few = [token for token in texts if token in preferred]
        return self._random.choice(few if few and draw < (0.95 if is_ending else 0.85) else texts)

    def _verdict(self) -> str:
        if self._judge is None:
            return ""
        try:
            value = json.loads(self.text, parse_float=self._read_number, parse_int=self._read_integer)
        except Inexact:
            return ""
        verdict = self._judge.verdict(value)
        self._found.judged += verdict.valid is not None
        return f"the text is invalid: {', '.join(verdict.why)}" if verdict.valid is False else ""


def walk_all(schemas: Sequence[tuple[str, Any]], seed: int, ends: float, walks: int = 3) -> Found:
    """Walk through random schemas until a time of `time.monotonic`, or through each once if that is past.

    Args:
        schemas: names and schemas.
        walks: number of walks per grammar.
    """
    randomness, found = random.Random(seed), Found()
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema", cache_enabled=False)
    order = randomness.sample(schemas, len(schemas))
    number = 0
    while number < len(order) or time.monotonic() < ends:
        name, schema = order[number % len(order)]
        number += 1
        is_strict = randomness.random() < 0.5
        walk: Walk | None = None
        found.schemas += 1
        try:
            compiled = compiler.compile_json_schema(json.dumps(schema), strict_mode=is_strict)
            walk = Walk(compiled, schema, randomness, found)
            for _ in range(walks):
                found.walks += 1
                if wrong := walk.run():
                    found.problems.append(f"{name}, strict_mode={is_strict}: {wrong} in {walk.text!r}")
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            if walk is None and isinstance(error, HybridError):
                found.refused += 1
                continue
            text = b"" if walk is None else walk.text
            found.problems.append(f"{name}, strict_mode={is_strict}: {traceback.format_exc()} in {text!r}")
    return found


def command(
    schemas: Annotated[Path, typer.Option(help="A folder of schema files.", exists=True, file_okay=False)],
    minutes: Annotated[float, typer.Option(help="Time; each schema is walked through at least once.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Another seed, other walks.")] = 0,
) -> None:
    """Random walks under semantics="json-schema": masks, dead ends, and valid texts."""
    files = workloads.load_schema_files(schemas)
    found = walk_all([(file.name, file.schema) for file in files], seed, time.monotonic() + 60 * minutes)
    finish(found)


def finish(found: Found) -> None:
    """Print what was found, and end the command with status 1 if something is wrong."""
    for problem in found.problems:
        print(problem[:2000])
    counts = {**vars(found), "problems": len(found.problems)}
    print(", ".join(f"{value:,} {name}" for name, value in counts.items()))
    if found.problems:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(command)
