"""``python -m hybrid``: see `hybrid.cli.commands`."""

from hybrid.cli.commands import app

app(prog_name="python -m hybrid")
