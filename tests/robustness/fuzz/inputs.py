"""What one case is made of: a grammar, a vocabulary, options and walks, drawn from its seed.

What: `draw_case` is a pure function of the seed and of the real vocabularies there are; `Case` is what it
draws; `Case.compile_ours` and `Case.parse` give it to both sides.
When: in the processes that run cases.
Limits: sparse vocabularies have 2 to 50 tokens besides stop ids, cut from texts of the grammar.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xgrammar

from bench.cases import Case as NamedCase
from tests.robustness.fuzz import grammars, schemas
from tests.robustness.fuzz.grammars import CHARACTERS, Drawn

SPARSE = "sparse"
"""The name of vocabularies that are drawn, among those of real ones."""

KINDS = {
    "ebnf": (grammars.draw_ebnf, 8),
    "token_ids": (grammars.draw_token_ids, 3),
    "attributes": (grammars.draw_attributes, 3),
    "json_schema": (schemas.draw_json_schema, 5),
    "regex": (grammars.draw_regex, 4),
    "structural_tag": (schemas.draw_structural_tag, 3),
    "lark": (grammars.draw_lark, 3),
}
"""Kinds of grammars: what draws one, and how often."""

FIRST_NAMED = 20_000
"""The first id that grammars over a real vocabulary name: one of text."""

STRATEGIES = ("classifier", "representatives", "engine", "auto")
LARK_STRATEGIES = ("classifier", "auto")


@dataclass(frozen=True)
class Case:
    """One grammar over one vocabulary.

    Attributes:
        seed: names the case: `draw_case` of it gives the same again.
        drawn: the grammar.
        vocabulary: `SPARSE`, or the SPEC of a real one.
        tokens: the bytes of each id; empty for a real vocabulary.
        stops: ids that end the text; likewise.
        options: of both sides' matchers.
        compiler: options of our compiler.
        walks: random walks.
    """

    seed: str
    drawn: Drawn
    vocabulary: str = SPARSE
    tokens: tuple[bytes, ...] = ()
    stops: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    compiler: dict[str, Any] = field(default_factory=dict)
    walks: int = 6

    @property
    def strategies(self) -> tuple[str, ...]:
        return LARK_STRATEGIES if self.drawn.parser == "lalr" else STRATEGIES

    def parse(self) -> xgrammar.Grammar:
        """The grammar as XGrammar's own parsers and converters read it."""
        drawn = self.drawn
        return NamedCase(self.seed, drawn.parser, drawn.source, drawn.options).parse()

    @property
    def method(self) -> str:
        """The method of our compiler that compiles grammars of this kind."""
        names = {"ebnf": "grammar", "lark": "grammar", "lalr": "lark"}
        return f"compile_{names.get(self.drawn.parser, self.drawn.parser)}"

    def compile_ours(self, compiler: Any) -> Any:
        """Compiled by our compiler."""
        source = self.parse() if self.drawn.parser == "lark" else self.drawn.source
        return getattr(compiler, self.method)(source, **self.drawn.options)


def draw_case(
    seed: str, real: Sequence[str] = (), real_share: float = 0.0, kinds: Sequence[str] = tuple(KINDS)
) -> Case:
    """The case of a seed.

    Args:
        seed: any text.
        real: SPECs of real vocabularies.
        real_share: share of the cases that are over one of them.
        kinds: of grammars.
    """
    rng = random.Random(seed)
    is_real = rng.random() < real_share and bool(real)
    kind = rng.choices(kinds, [KINDS[kind][1] for kind in kinds])[0]
    named_ids = (FIRST_NAMED,) if is_real and kind == "token_ids" else ()
    drawn: Drawn = KINDS[kind][0](rng, *named_ids)
    case = Case(seed, drawn, walks=rng.choice([3, 6, 6, 10]))
    if is_real:
        case = replace(case, vocabulary=rng.choice(list(real)), walks=2)
    else:
        case = replace(case, **draw_tokens(rng, drawn))
    options: dict[str, Any] = {}
    if rng.random() < 0.2 and not is_real:
        ids = range(len(case.tokens))
        options["override_stop_tokens"] = rng.sample(ids, min(len(ids), rng.randint(1, 3)))
    if rng.random() < 0.2:
        options["terminate_without_stop_token"] = True
    compiler = {"on_demand": rng.random() < 0.5}
    if rng.random() < 0.3 and drawn.parser != "lalr":
        compiler["deterministic"] = True
    return replace(case, options=options, compiler=compiler)


ODD = (b"\x80", b"\xff", b"\xc3", b"\xe0\x80", b"\xf4\x90", b"\xed\xa0\x80", b"\xc0\xaf", b"zq")
"""Bytes that are no character, beginnings of some, and text of no grammar."""


def odd_texts(drawn: Drawn) -> Sequence[bytes]:
    """Those of `ODD` about which a truth has answers: the oracle of Lark completes characters of the alphabet
    only."""
    return ODD[:2] if drawn.parser == "lalr" else ODD


def draw_tokens(rng: random.Random, drawn: Drawn) -> dict[str, Any]:
    """Tokens cut from texts of a grammar at any byte, and stop ids; in any order.

    Some are parts of characters or no characters at all, some are there twice or contain others; half of the
    vocabularies have the single bytes of the texts too, so that walks can go on.
    """
    known = [text.encode("utf-8", "surrogatepass") for text in drawn.texts if text] or [b"a"]
    # the oracle of Lark completes characters of the alphabet only
    foreign = [item.encode() for item in CHARACTERS if drawn.parser != "lalr" or item.isascii()]
    tokens: list[bytes] = []
    count = rng.choice([2, 3, 5, 8, 13, 24, 50])
    for _ in range(count):
        text = b"".join(
            rng.choice(known if rng.random() < 0.9 else foreign) for _ in range(rng.randint(1, 5))
        )
        start = rng.choice([0, 0, 0, 1, 2])
        if len(text) > 20 and rng.random() < 0.8:
            start = rng.randrange(len(text))
        tokens.append(text[start : start + rng.randint(1, 8)] or text[:1])
    if rng.random() < 0.55:
        singles = sorted({bytes([byte]) for byte in b"".join(known)})
        tokens += rng.sample(singles, min(len(singles), 50 - min(count, 20)))
    if rng.random() < 0.25:
        tokens.append(rng.choice(odd_texts(drawn)))
    if rng.random() < 0.3:
        tokens.append(rng.choice(tokens))
    if rng.random() < 0.2:
        tokens.append(b"")
    if rng.random() < 0.9:
        tokens = list(dict.fromkeys(tokens))
    rng.shuffle(tokens)
    del tokens[50:]
    while len(tokens) < max(2, drawn.ids):
        tokens.append(rng.choice([b"a", b"", *known])[:8])
    end = rng.randint(0, len(tokens))
    tokens.insert(end, rng.choice([b"", b"", b"</s>"]))
    stops = [end]
    if rng.random() < 0.15:
        stops.append(rng.randrange(len(tokens)))
    elif rng.random() < 0.1:
        stops = []
    return {"tokens": tuple(tokens), "stops": tuple(dict.fromkeys(stops))}
