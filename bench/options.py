"""Options that several benchmarks have: one name, one meaning, one help text.

What: annotated types for the parameters of a command.
When: in every benchmark; a command adds the options that only it needs.
Limits: each command has its own defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

VocabularyOption = Annotated[
    str, typer.Option("--vocabulary", help="tekken, an .npz file, or a Hugging Face folder.")
]
VocabulariesOption = Annotated[
    list[str],
    typer.Option("--vocabulary", help="tekken, an .npz file, or a Hugging Face folder; repeatable."),
]
SchemasOption = Annotated[
    Path, typer.Option("--schemas", help="Folder of schema files.", exists=True, file_okay=False)
]
OptionalSchemasOption = Annotated[
    Path | None, typer.Option("--schemas", help="Folder of schema files.", exists=True, file_okay=False)
]
RecordOption = Annotated[Path, typer.Option("--json", help="Where the record is written.")]
OptionalRecordOption = Annotated[Path | None, typer.Option("--json", help="Where the record is written.")]

LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="A random sample of so many schemas.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the sample, of random tokens and of walks.")]
WalksOption = Annotated[int, typer.Option("--walks", min=0, help="Random walks per grammar or schema.")]
WalkStepsOption = Annotated[int, typer.Option("--walk-steps", min=1, help="Masks per walk.")]
SamplesOption = Annotated[
    list[Path] | None,
    typer.Option("--sample", help="Text of the grammar, or a folder of them; repeatable.", exists=True),
]
GrammarsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--grammars", help="GBNF file, TOML file of cases, or a folder of both; repeatable.", exists=True
    ),
]
StrategyOption = Annotated[
    str, typer.Option("--strategy", help="Ours: auto, classifier, representatives, engine.")
]
WarmOption = Annotated[bool, typer.Option("--warm/--no-warm", help="Compile a throw-away schema first.")]
ColdCachesOption = Annotated[
    bool, typer.Option("--cold-caches", help="Calls with cold caches too, all engines in turn.")
]
RoundsOption = Annotated[int, typer.Option("--rounds", min=0, help="Of each measurement; 0: no times.")]
BatchOption = Annotated[int, typer.Option("--batch", min=0, help="Sequences of a batch; 0: no batches.")]
BuildsOption = Annotated[
    int, typer.Option("--builds", min=0, help="Compilations in a process of their own; 0 leaves them out.")
]
