"""The command line: one module a command."""

from dlbricks_core.cli.main import main

__all__ = ["main"]
