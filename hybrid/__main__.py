"""``python -m hybrid``: see `hybrid.cli.commands`."""

import sys

from equivalence.errors import NotInstalled

try:
    from hybrid.cli.commands import app
except ModuleNotFoundError as error:
    if error.name not in ("rich", "typer"):
        raise
    sys.exit(str(NotInstalled("python -m hybrid", error.name, "cli")))

app(prog_name="python -m hybrid")
