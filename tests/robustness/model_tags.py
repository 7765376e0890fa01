"""Structural tags of models over a real vocabulary: masks compared with plain XGrammar's, and times.

What: compiles the tag of each family (`tests.model_tags`) for some tools, with and without reasoning, with us
and with plain XGrammar, compares masks along random tokens, and times compiling, the first mask and a text.
When: ``python -m tests.robustness.model_tags --vocabulary SPEC``, and in ``python -m bench report``.
Limits: times are from one run in one process, ours first; plain XGrammar has one thread and no cache. The
tokens of `OF_TOKENS` are long ones of the vocabulary, preferably ones that look like tags.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.progress import track

from bench import options, report, workloads
from bench.reporting.answers import publish
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.testing.mask_comparison import compare_along
from tests.model_tags import FAMILIES, OF_TOKENS, path_of, tag_of


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call, and its milliseconds."""
    began = time.perf_counter()
    given = call()
    return given, 1000 * (time.perf_counter() - began)


def through(matcher: Any, path: list[int], bitmask: Any) -> list[float]:
    """Microseconds of each mask along a text."""
    found = []
    for token_id in path:
        found.append(1000 * timed(lambda: matcher.fill_next_token_bitmask(bitmask))[1])
        if not matcher.accept_token(token_id):
            raise AssertionError(f"token {token_id} is not accepted")
    return found


def measure(vocabulary: Vocabulary, tag: str, steps: int) -> dict[str, Any]:
    """Measure one tag: milliseconds of compiling and the first mask, and of all masks of the first text and
    of the fifth; microseconds of a repeated mask; ours and XGrammar's. Compare masks of the first four."""
    plain_compiler = workloads.plain_compiler(vocabulary, 1)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    ours, compiling = timed(lambda: GrammarCompiler(vocabulary).compile_structural_tag(tag))
    _, first = timed(lambda: GrammarMatcher(ours).fill_next_token_bitmask(bitmask))
    plain, plain_compiling = timed(lambda: plain_compiler.compile_structural_tag(tag))
    _, plain_first = timed(lambda: xgrammar.GrammarMatcher(plain).fill_next_token_bitmask(bitmask))
    rng = random.Random(tag)
    path = path_of(plain, tag, vocabulary, rng, steps)
    new, again = (through(GrammarMatcher(ours), path, bitmask) for _ in range(2))
    plain_new, plain_again = (through(xgrammar.GrammarMatcher(plain), path, bitmask) for _ in range(2))
    found = compare_along(ours, plain, path)
    for _ in range(3):
        found.add(compare_along(ours, plain, path_of(plain, tag, vocabulary, rng, steps)))
    later = path_of(plain, tag, vocabulary, rng, steps)
    ours_later, plain_later = (
        through(one, later, bitmask) for one in (GrammarMatcher(ours), xgrammar.GrammarMatcher(plain))
    )
    return {
        "strategy": ours.strategy,
        "first mask, ms": [compiling + first, plain_compiling + plain_first],
        "masks of the first text, ms": [sum(new) / 1000, sum(plain_new) / 1000],
        "masks of the fifth text, ms": [sum(ours_later) / 1000, sum(plain_later) / 1000],
        "one the second time, us": [float(np.median(again)), float(np.median(plain_again))],
        "masks": found.masks,
        "contradictions": found.contradicted_masks,
        "differences": found.difference_count,
    }


def command(
    vocabulary: options.VocabularyOption,
    tools: Annotated[list[int] | None, typer.Option(help="A number of tools; repeatable.")] = None,
    steps: Annotated[int, typer.Option(help="Tokens of a text.")] = 80,
    json: options.OptionalRecordOption = None,
) -> None:
    """Tags of models that call tools: masks, and times of ours / plain XGrammar."""
    arguments = dict(locals())
    tokens = workloads.load_vocabulary(vocabulary)
    tokens.prepare()
    workloads.hybrid_compiler(tokens, "auto", 1).compile_json_schema(workloads.THROW_AWAY_SCHEMA)
    # added tokens that are text: the longest ones that look like tags; else long words
    likely = {i: (text.startswith(b"<"), len(text)) for i, text in enumerate(tokens.tokens)}
    ids = tuple(heapq.nlargest(4, likely.keys() - set(tokens.stop_token_ids), key=likely.__getitem__))
    console, rows = report.make_console(), []
    work = list(product([*FAMILIES, OF_TOKENS], tools or [1, 8, 128], (True, False)))
    for name, n_tools, reasoning in track(work, "tags", console=console, transient=True):
        row = {"family": name, "tools": n_tools, "reasoning": reasoning}
        rows.append(row | measure(tokens, tag_of(name, n_tools, reasoning, ids), steps))
        if rows[-1]["differences"]:
            report.say(console, f"DIFFERENCE {rows[-1]}")
    publish(console, json, "tags", arguments, {"rows": rows}, not any(row["differences"] for row in rows))


if __name__ == "__main__":
    typer.run(command)
