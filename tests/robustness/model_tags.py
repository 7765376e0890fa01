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
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.progress import track

from bench import options, report, workloads
from bench.reporting.answers import publish
from bench.request import calls_of, hybrid_start, plain_start
from bench.server_times import Begin, beginning, timed
from hybrid import GrammarCompiler, Vocabulary
from hybrid.testing.mask_comparison import compare_along
from tests.model_tags import FAMILIES, OF_TOKENS, path_of, tag_of


def measure(vocabulary: Vocabulary, tag: str, steps: int) -> dict[str, Any]:
    """Measure one tag: milliseconds of compiling and the first mask, and of all masks of the first text and
    of the fifth; microseconds of a repeated mask; ours and XGrammar's. Compare masks of the first four."""
    plain_compiler = workloads.plain_compiler(vocabulary, 1)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    ours = hybrid_start(lambda: GrammarCompiler(vocabulary).compile_structural_tag(tag), bitmask)
    plain = plain_start(lambda: plain_compiler.compile_structural_tag(tag), bitmask)
    if ours.error or plain.error:
        raise RuntimeError([ours.error, plain.error])
    begins: tuple[Begin, ...] = (
        beginning(ours.compiled), lambda: calls_of(xgrammar.GrammarMatcher(plain.compiled), bitmask),
    )  # fmt: skip
    rng = random.Random(tag)
    path = path_of(plain.compiled, tag, vocabulary, rng, steps)
    twice = [[timed(begin(), path)[0] for _ in range(2)] for begin in begins]
    found = compare_along(ours.compiled, plain.compiled, path)
    for _ in range(3):
        other = path_of(plain.compiled, tag, vocabulary, rng, steps)
        found.add(compare_along(ours.compiled, plain.compiled, other))
    path = path_of(plain.compiled, tag, vocabulary, rng, steps)
    later = [timed(begin(), path)[0] for begin in begins]
    return {
        "strategy": ours.compiled.strategy,
        "first mask, ms": [1e3 * one.seconds for one in (ours, plain)],
        "masks of the first text, ms": [1e3 * sum(new) for new, _ in twice],
        "masks of the fifth text, ms": [1e3 * sum(times) for times in later],
        "one the second time, us": [1e6 * float(np.median(again)) for _, again in twice],
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
