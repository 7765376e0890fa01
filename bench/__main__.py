"""The command line of the benchmarks: ``python -m bench NAME``.

What: one subcommand per question; each prints a table, writes ``--json FILE`` and ends with status 1
where a mask differs.
When: run it on a quiet machine.
Limits: what each benchmark measures, and how, is in the module of its name.
"""

from __future__ import annotations

import typer

from bench import classes, equality, grammar, lark, schemas

app = typer.Typer(
    help="Benchmarks next to plain XGrammar; every mask is compared before a number is reported.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("schemas")(schemas.command)
app.command("grammar")(grammar.command)
app.command("lark")(lark.command)
app.command("equality")(equality.command)
app.command("classes")(classes.command)


@app.callback()
def main() -> None:
    """Benchmarks next to plain XGrammar; every mask is compared before a number is reported."""


if __name__ == "__main__":
    app(prog_name="python -m bench")
