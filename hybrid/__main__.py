"""``python -m hybrid``: see `hybrid.cli`."""

from hybrid.cli import app

app(prog_name="python -m hybrid")
