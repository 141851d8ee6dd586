"""Commands of ``dlbricks``: each is announced by an entry point of the group dlbricks.commands."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.commands.command import Action, ActionCommand, Command
    from dlbricks_core.commands.options.results_files import ResultsReader
    from dlbricks_core.commands.options.several_sizes import SizesOptions, SizesRequest

__all__ = ["Action", "ActionCommand", "Command", "ResultsReader", "SizesOptions", "SizesRequest"]

# Signals are among its modules: a command handles them before it imports anything else.
lazy(__name__)
