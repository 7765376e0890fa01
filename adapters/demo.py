"""The demonstration behind ``python -m hybrid demo``.

What: a small model with random weights, on the vocabulary of 131,072 ids that mistral-common ships, generates
texts under a JSON schema, a regular expression and a C-like grammar. An independent parser judges each
output, and every mask on the way is compared bit for bit with plain XGrammar's.
When: to see the project work, after installing it.
Limits: the weights are random, so the text is noise that obeys a grammar; the times are of this machine.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema
import torch
import transformers
import xgrammar
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from adapters.transformers import GrammarLogitsProcessor
from hybrid import CompiledGrammar, GrammarCompiler, Vocabulary
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.testing.comparison import Comparison
from hybrid.testing.mask_comparison import compare_along

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 3, "maxLength": 24},
        "population": {"type": "integer", "minimum": 0, "maximum": 40000000},
        "climate": {"enum": ["arid", "temperate", "tropical", "polar"]},
        "founded": {"type": "string", "format": "date"},
        "districts": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[A-Z][a-z]{2,9}$"},
            "minItems": 1,
            "maxItems": 4,
        },
        "coastal": {"type": "boolean"},
    },
    "required": ["city", "population", "climate", "founded", "districts", "coastal"],
    "additionalProperties": False,
}
REGEX = r"(GET|POST|PUT|DELETE) /[a-z]{2,12}(/[a-z0-9]{1,8}){0,3}(\?[a-z]{1,8}=[0-9]{1,6})? HTTP/1\.[01]"
SLOW_MASK_TOKENS = 32
"""Plain XGrammar needs about 0.2 s for a mask of the C-like grammar, and the demonstration asks for each."""


@dataclass
class Task:
    """One grammar of the demonstration."""

    name: str
    compile: Callable[[Any], Any]  # with our compiler or with XGrammar's
    judge: Callable[[bytes, bool], str]
    tokens: int


@dataclass
class Outcome:
    """The result for one grammar."""

    task: Task
    compiled: CompiledGrammar
    seconds: float
    plain_seconds: float
    comparison: Comparison
    text: bytes
    verdict: str


def run(*, tokens: int, seed: int) -> int:
    """Run the demonstration. Return the exit status: 1 if a mask differs or an output is refused."""
    # the summary needs more than the 80 columns that rich assumes if there is no terminal
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(
        "A model with [b]random weights[/b] writes under three grammars. Its text is noise; what is shown is "
        "that the noise obeys the grammar, and that every mask equals plain XGrammar's."
    )
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        preparing = progress.add_task("reading the vocabulary", total=3)
        vocabulary = load_vocabulary("tekken")
        progress.update(preparing, advance=1, description="building the trie")
        _ = vocabulary.trie
        compiler = GrammarCompiler(vocabulary, cache_enabled=False)
        progress.update(preparing, advance=1, description="making a random model")
        model = random_model(vocabulary)
        plain = xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1, cache_enabled=False)
        progress.update(preparing, advance=1, description="ready")
        outcomes = [work(task, compiler, plain, model, vocabulary, progress) for task in tasks(tokens)]
    for outcome in outcomes:
        show(console, outcome)
    console.print(summary(outcomes))
    exact = all(outcome.comparison.exact for outcome in outcomes)
    valid = all(outcome.verdict.startswith("valid") for outcome in outcomes)
    compared = sum(outcome.comparison.masks for outcome in outcomes)
    console.print(
        f"{compared} masks of {vocabulary.size:,} bits compared: "
        + ("[green]all equal[/green]" if exact else "[red]SOME DIFFER[/red]")
        + f"; {time.perf_counter() - began:.0f} s in all"
    )
    return 0 if exact and valid else 1


def tasks(tokens: int) -> list[Task]:
    """Return the three tasks: a JSON schema, a regular expression, and the C-like grammar of the package."""
    c_like = shipped_grammar("c_like.gbnf").text
    return [
        Task(
            "JSON schema",
            lambda compiler: compiler.compile_json_schema(SCHEMA, any_whitespace=False),
            judge_json,
            tokens,
        ),
        Task("regular expression", lambda compiler: compiler.compile_regex(REGEX), judge_regex, tokens),
        Task(
            "C-like grammar",
            lambda compiler: compiler.compile_grammar(c_like),
            lambda text, ended: judge_grammar(c_like, text, ended),
            min(tokens, SLOW_MASK_TOKENS),
        ),
    ]


def random_model(vocabulary: Vocabulary) -> Any:
    """Make a Llama of two small layers with random weights."""
    config = transformers.LlamaConfig(
        vocab_size=vocabulary.size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=vocabulary.stop_token_ids[0],
        pad_token_id=vocabulary.stop_token_ids[0],
    )
    return transformers.LlamaForCausalLM(config).eval()


class _Ticker(transformers.StoppingCriteria):
    """Advances a progress bar by one for each token; never stops the generation."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        self._tick()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def work(
    task: Task, compiler: GrammarCompiler, plain: xgrammar.GrammarCompiler, model: Any,
    vocabulary: Vocabulary, progress: Progress,
) -> Outcome:  # fmt: skip
    """Compile on both sides, generate, judge the output, and compare every mask on the way."""
    bar = progress.add_task(f"{task.name}: compiling", total=None)
    began = time.perf_counter()
    compiled = task.compile(compiler)
    seconds = time.perf_counter() - began
    progress.update(bar, description=f"{task.name}: plain XGrammar compiling")
    began = time.perf_counter()
    plain_compiled = task.compile(plain)
    plain_seconds = time.perf_counter() - began
    progress.update(bar, description=f"{task.name}: generating", total=task.tokens)
    output = model.generate(
        torch.tensor([[1]]),
        attention_mask=torch.ones((1, 1), dtype=torch.long),
        max_new_tokens=task.tokens,
        do_sample=True,
        logits_processor=[GrammarLogitsProcessor(compiled)],
        stopping_criteria=[_Ticker(lambda: progress.advance(bar))],
    )
    ids = output[0, 1:].tolist()
    progress.update(bar, description=f"{task.name}: comparing masks", completed=len(ids), total=len(ids))
    comparison = compare_along(compiled, plain_compiled, ids)
    ended = bool(ids) and ids[-1] in vocabulary.stop_token_ids
    text = b"".join(vocabulary.tokens[token_id] for token_id in ids)
    verdict = task.judge(text, ended)
    progress.update(bar, description=f"{task.name}: {verdict}")
    return Outcome(task, compiled, seconds, plain_seconds, comparison, text, verdict)


def judge_json(text: bytes, ended: bool) -> str:
    """Judge the whole text by `jsonschema`."""
    if not ended:
        return "unfinished: the limit of tokens was reached"
    try:
        jsonschema.validate(
            json.loads(text), SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
    except (ValueError, jsonschema.ValidationError) as error:
        return f"REFUSED by jsonschema: {error}"
    return "valid (jsonschema)"


def judge_regex(text: bytes, ended: bool) -> str:
    """Judge the whole text by Python's `re`."""
    if not ended:
        return "unfinished: the limit of tokens was reached"
    return "valid (re)" if re.fullmatch(REGEX.encode(), text) else "REFUSED by re"


def judge_grammar(grammar: str, text: bytes, ended: bool) -> str:
    """Judge the text by XGrammar, byte by byte: it is a sentence, or the beginning of one."""
    info = xgrammar.TokenizerInfo(
        [*(bytes([b]) for b in range(256)), b""], vocab_size=257, stop_token_ids=[256]
    )
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info).compile_grammar(grammar))
    if not matcher.accept_string(text):
        return "REFUSED by XGrammar's acceptor"
    if ended:
        return "valid, a whole sentence (XGrammar's acceptor)" if matcher.accept_token(256) else "REFUSED"
    return "valid beginning (XGrammar's acceptor)"


def show(console: Console, outcome: Outcome) -> None:
    """Print the generated text with its verdict."""
    title = f"{outcome.task.name}: {outcome.verdict}"
    console.print(Panel(Text(outcome.text.decode("utf-8", "replace")), title=title, title_align="left"))


def summary(outcomes: list[Outcome]) -> Table:
    """Return a table with a row for each grammar: classes, times beside plain XGrammar's, and whether all
    masks are equal."""
    table = Table(title="medians; the ratio is plain XGrammar / ours", title_justify="left")
    table.add_column("grammar")
    for column in ("classes", "compile", "plain", "ratio", "mask", "plain", "ratio", "masks equal"):
        table.add_column(column, justify="right")
    for outcome in outcomes:
        ours = sorted(outcome.comparison.times.fill)
        plain = sorted(outcome.comparison.times.plain_fill)
        mask, plain_mask = ours[len(ours) // 2], plain[len(plain) // 2]
        classes = outcome.compiled.classes
        table.add_row(
            outcome.task.name,
            "-" if classes is None else f"{classes.n_classes:,}",
            f"{1e3 * outcome.seconds:.1f} ms",
            f"{1e3 * outcome.plain_seconds:.0f} ms",
            f"{outcome.plain_seconds / outcome.seconds:.1f}x",
            f"{1e6 * mask:.1f} us",
            f"{1e6 * plain_mask:.1f} us",
            f"{plain_mask / mask:.1f}x",
            f"{outcome.comparison.equal} of {outcome.comparison.masks}",
        )
    return table
