"""Spelling of the library's arguments as command-line options."""

from __future__ import annotations

#: Options of all commands, which may also precede the command's name.
FLAGS = ("-v", "--verbose", "-q", "--quiet")


def option_of(argument: str) -> str:
    """The option that sets an argument of the library, as the user types it."""
    # A message needs the table, and most commands end without one.
    from dlbricks_core.commands.options.settings import SETTINGS, spelled

    setting = SETTINGS.get(argument)
    return spelled(argument) if setting is None else setting.spelling
