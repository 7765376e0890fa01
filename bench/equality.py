"""``python -m bench equality``: every mask of many schemas against plain XGrammar, without timing anything.

What: for each schema, masks along every instance (cut into tokens by longest match and at random) and along
random walks are compared bit for bit.
When: before a release, over all schemas and several vocabularies; `--shard` splits the work.
Limits: plain XGrammar keeps its cache of rules here, which makes it faster and its masks no different;
that is why this command reports no times. Contradictions of XGrammar with itself are counted and listed.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import options
from bench.report import environment, write_json
from bench.workloads import load_schema_files, load_vocabulary, render_instance, token_sequences
from hybrid.verify import Comparison, compare_along, compare_walk


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json_file: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    walks: options.WalksOption = 2,
    walk_steps: options.WalkStepsOption = 200,
    shard: Annotated[str, typer.Option(help="i/n: only every n-th schema, from the i-th.")] = "0/1",
    cache_gib: Annotated[float, typer.Option(help="Bound of plain XGrammar's cache.")] = 6.0,
) -> None:
    """Compare every mask of many schemas with plain XGrammar's."""
    from hybrid import GrammarCompiler, HybridError

    console = Console()
    index, parts = (int(part) for part in shard.split("/"))
    files = load_schema_files(schemas, limit, seed)[index::parts]
    words = load_vocabulary(vocabulary)
    ours = GrammarCompiler(words, cache_enabled=False)
    plain = xgrammar.GrammarCompiler(
        words.tokenizer_info, max_threads=1, cache_enabled=True, cache_limit_bytes=int(cache_gib * 2**30)
    )
    uncached = xgrammar.GrammarCompiler(words.tokenizer_info, max_threads=1, cache_enabled=False)
    total = Comparison()
    rows: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("schemas", total=len(files))
        for file in files:
            row: dict[str, Any] = {"schema": file.name}
            rows.append(row)
            ours_error = plain_error = ""
            compiled = plain_compiled = None
            try:
                compiled = ours.compile_json_schema(file.schema, strict_mode=False)
            except HybridError as error:
                ours_error = str(error)
            try:
                plain_compiled = plain.compile_json_schema(file.schema, strict_mode=False)
            except RuntimeError:
                # its cache across grammars fails an internal check now and then: once more without
                try:
                    plain_compiled = uncached.compile_json_schema(file.schema, strict_mode=False)
                except RuntimeError as error:
                    plain_error = str(error)
            if compiled is None or plain_compiled is None:
                row["refused"] = {"ours": ours_error, "plain": plain_error}
                row["alike"] = bool(ours_error) == bool(plain_error)
                progress.advance(task)
                continue
            row["strategy"], row["reason"] = compiled.strategy, compiled.reason
            found = Comparison()
            for number, instance in enumerate((*file.valid, *file.invalid)):
                for ids in token_sequences(words, render_instance(instance), f"{seed} {file.name} {number}"):
                    found.add(compare_along(compiled, plain_compiled, ids))
            for walk in range(walks):
                found.add(compare_walk(compiled, plain_compiled, 1000 * seed + walk, walk_steps))
            row.update(
                masks=found.masks,
                equal=found.equal,
                contradictions=[repr(entry) for entry in found.contradictions[:20]],
                contradiction_count=found.contradiction_count,
                contradicted_masks=found.contradicted_masks,
                differences=[repr(entry) for entry in found.differences[:20]],
                difference_count=found.difference_count,
            )
            total.add(found)
            progress.advance(task)
    unlike = sum(row.get("alike") is False for row in rows)
    record = {
        "bench": "equality",
        **environment(
            {
                "vocabulary": vocabulary,
                "seed": seed,
                "shard": shard,
                "walks": walks,
                "walk_steps": walk_steps,
            }
        ),
        "schemas": len(files),
        "refused_by_one_side": unlike,
        "masks": total.masks,
        "equal": total.equal,
        "contradiction_count": total.contradiction_count,
        "contradicted_masks": total.contradicted_masks,
        "difference_count": total.difference_count,
        "rows": rows,
    }
    write_json(json_file, record)
    engine = sum(row.get("strategy") == "engine" for row in rows)
    refused = sum("refused" in row for row in rows)
    outcome = f"{refused} refused, {unlike} by one side only; {engine} on the engine"
    console.print(f"{len(files)} schemas ({outcome}): {total}")
    raise typer.Exit(1 if total.difference_count or unlike else 0)
