"""``python -m bench equality``: compare every mask of many grammars with plain XGrammar's, without timing.

What: for each schema or grammar, masks along its texts (cut into tokens by longest match and at random) and
along random walks are compared bit for bit. The texts are the instances of a schema, or the strings of a
case. For a grammar without texts, random walks make some.
When: before a release, over all schemas and grammars and several vocabularies.
Limits: plain XGrammar keeps its cache of rules here, which makes it faster and does not change masks; that is
why this command reports no times. Contradictions of XGrammar with itself are counted and listed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Annotated, Any

import typer
import xgrammar
from rich.progress import track

from bench import options, workloads
from bench.cases import Case, load_grammars
from bench.report import make_console, say
from bench.reporting.answers import publish
from equivalence import Vocabulary
from hybrid.testing.comparison import Comparison
from hybrid.testing.mask_comparison import compare_along, compare_walk, flags_of
from hybrid.testing.random_walk import Walker

CACHE_BYTES = 6 << 30
"""The limit of plain XGrammar's cache."""

MADE_TEXTS, MADE_TOKENS = 4, 60
"""Number of texts made for a grammar without texts, and most tokens of each."""


@dataclass(frozen=True)
class Work:
    """One grammar: how either side compiles it, and its texts."""

    name: str
    kind: str
    compile_with: Callable[[Any], Any]
    texts: tuple[bytes, ...]

    @classmethod
    def of_schema(cls, file: workloads.SchemaFile) -> Work:
        """Make the work for a schema with all its instances, valid and invalid."""
        texts = tuple(map(workloads.render_instance, (*file.valid, *file.invalid)))

        def compile_with(compiler: Any) -> Any:
            return compiler.compile_json_schema(file.schema, strict_mode=False)

        return cls(file.name, "schema", compile_with, texts)

    @classmethod
    def of_case(cls, case: Case) -> Work:
        """Make the work for a case with all its strings, including those that the grammar rejects."""
        texts = (*case.accepts, *case.prefixes, *case.rejects)
        return cls(case.name, case.kind, lambda compiler: compiler.compile_grammar(case.parse()), texts)


@dataclass
class Compilers:
    """Both sides over one vocabulary, and the settings for every grammar."""

    name: str
    vocabulary: Vocabulary
    strategy: str
    seed: int
    walks: int
    walk_steps: int
    seconds: float

    def __post_init__(self) -> None:
        self.ours = workloads.hybrid_compiler(self.vocabulary, self.strategy, None)
        self.plain = xgrammar.GrammarCompiler(
            self.vocabulary.tokenizer_info, max_threads=1, cache_limit_bytes=CACHE_BYTES
        )
        self.uncached = workloads.plain_compiler(self.vocabulary, 1)

    def compare(self, work: Work) -> tuple[dict[str, Any], Comparison]:
        """Compare one grammar. Return its row, and the comparison."""
        from hybrid import HybridError

        row: dict[str, Any] = {"vocabulary": self.name, "kind": work.kind, "name": work.name}
        found = Comparison()
        # refused by us, or by XGrammar's parser, which cases call themselves
        compiled, ours_error = _tried(work, self.ours, HybridError, RuntimeError)
        plain_compiled, plain_error = _tried(work, self.plain, RuntimeError)
        if plain_compiled is None:
            # XGrammar's cache across grammars sometimes fails an internal check: try again without it
            plain_compiled, plain_error = _tried(work, self.uncached, RuntimeError)
        if compiled is None or plain_compiled is None:
            row["refused"] = {"ours": ours_error, "plain": plain_error}
            row["alike"] = bool(ours_error) == bool(plain_error)
            return row, found
        row["strategy"], row["reason"] = compiled.strategy, compiled.reason
        row["classes"] = workloads.class_count(compiled)
        began = perf_counter()
        deadline = began + self.seconds
        for one in self._comparisons(work, compiled, plain_compiled, deadline):
            found.add(one)
            if perf_counter() >= deadline:
                break
        row["within_seconds"] = perf_counter() < deadline
        row |= {name: getattr(found, name) for name in FOUND}
        row["contradictions"], row["differences"] = (
            [str(entry) for entry in entries[:20]] for entries in (found.contradictions, found.differences)
        )
        return row, found

    def _comparisons(
        self, work: Work, compiled: Any, plain_compiled: Any, deadline: float
    ) -> Iterator[Comparison]:
        """Yield comparisons of texts and walks in turn, so that both are done within a time limit."""
        seed = self.seed
        texts = work.texts or tuple(made_texts(compiled, self.vocabulary, seed))
        for number in range(max(len(texts), self.walks)):
            if number < len(texts):
                cuts = f"{seed} {work.name} {number}"
                for ids in workloads.token_sequences(self.vocabulary, texts[number], cuts):
                    yield compare_along(compiled, plain_compiled, ids, deadline=deadline)
            if number < self.walks:
                walk = 1000 * seed + number
                yield compare_walk(compiled, plain_compiled, walk, self.walk_steps, deadline=deadline)


def _tried(work: Work, compiler: Any, *refusals: type[Exception]) -> tuple[Any, str]:
    """Compile a grammar; return the result, or why it is refused."""
    try:
        return work.compile_with(compiler), ""
    except refusals as error:
        return None, str(error)


def made_texts(compiled: Any, vocabulary: Vocabulary, seed: int) -> Iterator[bytes]:
    """Yield texts from random walks, for grammars that have none. A text may be cut off anywhere."""
    from hybrid import GrammarMatcher

    for number in range(MADE_TEXTS):
        walker = Walker(random.Random(f"{seed} {number}"), vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
        matcher = GrammarMatcher(compiled)
        text = b""
        for _ in range(MADE_TOKENS):
            bits = flags_of(matcher)
            bits[list(vocabulary.stop_token_ids)] = False
            if not bits.any():
                break
            token = walker.draw_from(bits)
            if not matcher.accept_token(token):  # XGrammar's mask may contradict it, on strategy "engine"
                break
            text += vocabulary.tokens[token]
        yield text


FOUND = ("masks", "equal", "contradiction_count", "contradicted_masks", "difference_count")
"""Counts of a `Comparison` that records have for each row and for the total."""


def summarise(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up the rows of each vocabulary and kind."""
    lines = []
    for vocabulary, kind in dict.fromkeys((row["vocabulary"], row["kind"]) for row in rows):
        own = [row for row in rows if (row["vocabulary"], row["kind"]) == (vocabulary, kind)]
        compared = [row for row in own if "refused" not in row]
        lines.append({
            "vocabulary": vocabulary,
            "kind": kind,
            "grammars": len(own),
            "on_classes": sum(row["strategy"] != "engine" for row in compared),
            "refused": len(own) - len(compared),
            "ended_early": sum(not row["within_seconds"] for row in compared),
            "masks": sum(row["masks"] for row in compared),
            "differences": sum(row["difference_count"] for row in compared),
            "contradictions": sum(row["contradiction_count"] for row in compared),
            "contradicted_masks": sum(row["contradicted_masks"] for row in compared),
        })  # fmt: skip
    return lines


def command(
    vocabulary: options.VocabulariesOption,
    json_file: options.RecordOption,
    schemas: options.OptionalSchemasOption = None,
    grammars: options.GrammarsOption = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Name of a schema or grammar to leave out; repeatable.")
    ] = None,
    strategy: options.StrategyOption = "auto",
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    walks: options.WalksOption = 2,
    walk_steps: options.WalkStepsOption = 200,
    seconds: Annotated[
        float, typer.Option(min=0, help="Bound of the comparisons of one grammar; 0 for none.")
    ] = 0.0,
) -> None:
    """Compare every mask of many schemas and grammars with plain XGrammar's."""
    arguments = dict(locals())
    console = make_console()
    with workloads.usage_errors():
        if not schemas and not grammars:
            raise ValueError("nothing to compare; give --schemas DIR, --grammars DIR or both")
        files = workloads.load_schema_files(schemas, limit, seed) if schemas else []
        cases = load_grammars(grammars) if grammars else []
        work = [*map(Work.of_schema, files), *map(Work.of_case, cases)]
        work = [one for one in work if one.name not in (without or ())]
        settings = (strategy, seed, walks, walk_steps, seconds or math.inf)
        sides = [
            Compilers(workloads.short_name(spec), workloads.load_vocabulary(spec), *settings)
            for spec in vocabulary
        ]
    total = Comparison()
    rows: list[dict[str, Any]] = []
    for side in sides:
        for one in track(work, side.name, console=console):
            row, found = side.compare(one)
            rows.append(row)
            total.add(found)
    unlike = sum(row.get("alike") is False for row in rows)
    for row in rows:
        name = f"{row['vocabulary']}, {row['name']}"
        if row.get("difference_count"):
            say(console, f"DIFFERENCE {name}: {row['differences'][0]}")
        elif row.get("contradiction_count"):
            say(console, f"contradictions, {name}: {row['contradictions'][0]}")
        elif row.get("alike") is False:
            say(console, f"refused by one side, {name}: {row['refused']}")
    engine = sum(row.get("strategy") == "engine" for row in rows)
    refused = sum("refused" in row for row in rows)
    outcome = f"{refused} refused, {unlike} by one side only; {engine} on the engine"
    say(console, f"{len(rows)} grammars and vocabularies ({outcome}): {total}")
    record = {
        "schemas": sum(one.kind == "schema" for one in work),
        "grammars": sum(one.kind != "schema" for one in work),
        "refused_by_one_side": unlike,
        **{name: getattr(total, name) for name in FOUND},
        "summary": summarise(rows),
        "rows": rows,
    }
    publish(console, json_file, "equality", arguments, record, not total.difference_count and not unlike)
