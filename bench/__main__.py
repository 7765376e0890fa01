"""The command line of the benchmarks: ``python -m bench NAME``.

What: one subcommand for each question. Each prints a table, writes ``--json FILE``, and exits with status 1
if a mask differs. ``report`` runs all of them and writes pages (``page`` only writes the pages again),
``diff`` compares two records.
When: run it on a quiet machine.
Limits: the module of each benchmark says what it measures, and how.
"""

from __future__ import annotations

import typer

from bench import (
    classes,
    drafts,
    equality,
    generating,
    grammar,
    growth,
    healing,
    invasive,
    lark,
    lengths,
    maskbench,
    opportunistic,
    schemas,
    starting,
    steps,
    strategies,
    testsuite,
    tools,
)
from bench.reporting import command as reporting
from bench.reporting import differences

app = typer.Typer(
    help="Benchmarks next to plain XGrammar; every mask is compared before a number is reported.",
    no_args_is_help=True,
    add_completion=False,
)
for module in (
    schemas, grammar, lark, equality, classes, strategies, maskbench, testsuite, drafts, healing, invasive,
    opportunistic, starting, growth, steps, generating, lengths, tools,
):  # fmt: skip
    app.command(module.__name__.removeprefix("bench."))(module.command)
app.command("report")(reporting.command)
app.command("page")(reporting.page_command)
app.command("diff")(differences.command)


@app.callback()
def main() -> None:
    """Benchmarks against plain XGrammar and other peers; every mask is compared before a number is
    reported."""


if __name__ == "__main__":
    app(prog_name="python -m bench")
