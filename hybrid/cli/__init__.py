"""The command line: see `hybrid.cli.commands`."""
