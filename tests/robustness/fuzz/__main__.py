"""``python -m tests.robustness.fuzz``: see `tests.robustness.fuzz.command`."""

from __future__ import annotations

import typer

from tests.robustness.fuzz.command import command

app = typer.Typer(add_completion=False)
app.command()(command)

if __name__ == "__main__":
    app(prog_name="python -m tests.robustness.fuzz")
