"""``python -m hybrid``: see `hybrid.cli.commands`."""

import os
import sys

from equivalence.errors import NotInstalled

try:
    from hybrid.cli.commands import app
except ModuleNotFoundError as error:
    if error.name not in ("rich", "typer"):
        raise
    sys.exit(str(NotInstalled("python -m hybrid", error.name, "cli")))

CLOSED_PIPE = 141
"""The exit status if nobody reads what is printed: as if SIGPIPE had ended the program."""

try:
    app(prog_name="python -m hybrid")
except SystemExit as ended:
    if isinstance(ended.__context__, BrokenPipeError):  # its status means that a document is refused
        sys.exit(CLOSED_PIPE)
    raise
except OSError as error:  # errors of the command itself are printed where they arise
    if sys.__stdout__ is not None:  # Python writes what is left there when it ends
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), sys.__stdout__.fileno())
    print(f"the output cannot be written: {error}", file=sys.stderr)
    sys.exit(2)
