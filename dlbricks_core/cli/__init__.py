"""The command line, one module for each command."""

from dlbricks_core.commands.signals import starting

with starting():
    from dlbricks_core.cli.main import main

__all__ = ["main"]
