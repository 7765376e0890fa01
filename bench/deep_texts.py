"""``python -m bench deep``: long, deep and ambiguous texts, and what a step costs from quarter to quarter.

What: each text goes through the classifier of its grammar, token by token; reported are the means of mask
and token for each quarter of it, the largest number of tops (pairs of state and tail) of a configuration,
and the memory of the tables. The first masks are compared with strategy "representatives" before.
When: after a change of how stacks are kept: a cost that grows from quarter to quarter is an error in
waiting.
Limits: closing two thousand brackets reads two thousand new tails; that is the text's size, not growth per
step. XGrammar takes exponential time on some of these grammars, hence few masks are compared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.table import Table

from bench import agreement, options, report, workloads
from hybrid.testing.segmentation import tokenize_greedy


@dataclass(frozen=True)
class DeepText:
    """A grammar (None: XGrammar's grammar of all JSON), and a text of it of about so many tokens."""

    name: str
    grammar: str | None
    text: Callable[[int], bytes]


def _document(size: int) -> bytes:
    rng = random.Random(0)

    def value(depth: int) -> Any:
        chance = rng.random()
        if depth > 6 or chance < 0.3:
            return rng.choice([1, 2.5, "abc", None, True, "x y z", -17e3])
        if chance < 0.65:
            return [value(depth + 1) for _ in range(rng.randrange(6))]
        names = [rng.choice("abcdefg") * rng.randrange(1, 5) + str(i) for i in range(rng.randrange(6))]
        return {name: value(depth + 1) for name in names}

    entries: list[str] = []
    while sum(map(len, entries)) < 3 * size:
        entries.append(json.dumps(value(0)))
    return f"[{', '.join(entries)}]".encode()


TEXTS = (
    DeepText("JSON document", None, _document),
    DeepText("JSON brackets", None, lambda n: b"[" * (n // 2) + b"]" * (n // 2)),
    DeepText("JSON objects", None, lambda n: b'{"a":' * (n // 2) + b"1" + b"}" * (n // 2)),
    DeepText("JSON in turn", None, lambda n: b'[{"a":' * (n // 2) + b"1" + b"}]" * (n // 2)),
    DeepText(
        "ambiguous lists", 'root ::= e\ne ::= e e | "(" e ")" | "a" | "a" "a"', lambda n: b"a" * (4 * n)
    ),
    DeepText(
        "ambiguous sums",
        'root ::= e\ne ::= e e | "(" e ")" | "a" | e "+" e',
        lambda n: b"(a+a" * (n // 2) + b")" * (n // 2),
    ),
    DeepText(
        "ambiguous ends",
        'root ::= e\ne ::= "(" e ")" | e "+" e | e "*" e | "(" e ")" "!" | "a"',
        lambda n: b"(a+a*a)+" * (n // 8) + b"a" + b"+(a" * (n // 4) + b")" * (n // 4),
    ),
    DeepText(
        "dangling else",
        'root ::= s\ns ::= "if" " " s ("else" " " s)? | "x;"',
        lambda n: b"if " * (n // 3) + b"x;" + b"else x;" * (n // 8),
    ),
    DeepText("empty words", 'root ::= a+\na ::= b a b | b\nb ::= "x" | "x" b | ""', lambda n: b"x" * (4 * n)),
    DeepText(
        "palindrome",
        'root ::= "a" root "a" | "b" root "b" | ""',
        lambda n: b"ab" * (n // 2) + b"ba" * (n // 2),
    ),
    DeepText("counter", 'root ::= ("a" | "b"){0,3000} "c"', lambda n: b"ab" * min(n, 1500) + b"c"),
    DeepText(
        "nested counters",
        'root ::= x{0,50}\nx ::= "[" x{0,50} "]" | "a"',
        lambda n: (b"[" + b"a" * 40) * (n // 12) + b"]" * (n // 12),
    ),
    DeepText("ambiguous counter", 'root ::= ("a"{1,20} "b"?){0,500}', lambda n: b"aab" * min(n, 400)),
)


@dataclass(frozen=True)
class DeepRow:
    """What one text cost: seconds, by quarter of its tokens."""

    name: str
    tokens: int
    complete: bool
    compared: int
    mask: list[float]
    accept: list[float]
    longest_mask: float
    longest_accept: float
    tops: int
    table_bytes: int
    sessions: int


def follow(compiled: Any, name: str, ids: list[int], compared: int) -> DeepRow:
    """Run a text through a classifier that has met nothing."""
    from hybrid import GrammarMatcher

    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    matcher = GrammarMatcher(compiled)
    fills, accepts = np.zeros(len(ids)), np.zeros(len(ids))
    tops = 0
    read = 0
    for read, token in enumerate(ids, 1):
        began = perf_counter()
        matcher.fill_next_token_bitmask(bitmask)
        filled = perf_counter()
        taken = matcher.accept_token(token)
        ended = perf_counter()
        fills[read - 1], accepts[read - 1] = filled - began, ended - filled
        if not taken:
            break
        tops = max(tops, tops_of(matcher))
    session = compiled.classifier.session
    return DeepRow(
        name, read, bool(matcher.is_completed()), compared, _quarters(fills[:read]),
        _quarters(accepts[:read]), float(fills.max()), float(accepts.max()), tops, session.store.nbytes,
        session.serial + 1,
    )  # fmt: skip


def tops_of(matcher: Any) -> int:
    """How many pairs of a state and what lies below it a matcher's configuration has."""
    values = matcher._session.store.space.list_of(matcher._config)
    return (len(values) - 2 - int(values[1])) // 2


def _quarters(times: Any) -> list[float]:
    return [float(part.mean()) if part.size else 0.0 for part in np.array_split(times, 4)]


def command(
    vocabulary: options.VocabularyOption,
    json_file: options.RecordOption,
    size: Annotated[int, typer.Option(min=8, help="About so many tokens or brackets a text.")] = 4000,
    compare: Annotated[int, typer.Option(min=0, help="First masks of each text to compare.")] = 30,
    only: Annotated[str, typer.Option(help="Texts whose name contains this.")] = "",
) -> None:
    """Long, deep and ambiguous texts through the classifier: cost by quarter, tops, memory."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        tokens = workloads.load_vocabulary(vocabulary)
    ours = workloads.hybrid_compiler(tokens, "classifier", 1)
    others = workloads.hybrid_compiler(tokens, "representatives", 1)
    rows: list[DeepRow] = []
    differences: list[str] = []
    table = Table(title="us for each token, by quarter of the text", title_justify="left")
    for heading in ("text", "tokens", "mask", "longest", "accept", "longest", "tops", "MiB", "sessions"):
        table.add_column(heading, justify="left" if heading == "text" else "right", no_wrap=True)
    for text in TEXTS:
        if only not in text.name:
            continue
        ids = tokenize_greedy(tokens, text.text(size))
        found = agreement.agree_along(
            {"classifier": _compile(ours, text.grammar), "representatives": _compile(others, text.grammar)},
            ids[:compare],
        )
        differences += [f"{text.name}: {item}" for item in found.differences]
        row = follow(_compile(ours, text.grammar), text.name, ids, found.masks)
        rows.append(row)
        table.add_row(
            row.name, f"{row.tokens:,}", _shown(row.mask), _shown([row.longest_mask]), _shown(row.accept),
            _shown([row.longest_accept]), str(row.tops), f"{row.table_bytes / 2**20:.1f}", str(row.sessions),
        )  # fmt: skip
    console.print(table)
    for item in differences:
        report.say(console, f"DIFFERENCE {item}")
    report.write_json(
        json_file,
        {
            "benchmark": "deep",
            **report.environment(arguments),
            "differences": differences,
            "rows": [asdict(row) for row in rows],
        },
    )
    raise typer.Exit(1 if differences else 0)


def _compile(compiler: Any, grammar: str | None) -> Any:
    if grammar is None:
        return compiler.compile_builtin_json_grammar()
    return compiler.compile_grammar(grammar)


def _shown(times: list[float]) -> str:
    return " ".join(f"{value * 1e6:.3g}" if value < 1e-4 else f"{value * 1e6:.0f}" for value in times)
