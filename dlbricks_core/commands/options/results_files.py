"""Results files, which a distribution reads, and from which estimates are made without a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core.commands.command import folders_to_install
from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.plugins import find, names, use
from dlbricks_core.wording import argument, clone_install

if TYPE_CHECKING:
    from dlbricks_core.store import ResultStore

_NAME = "exported"


class ResultsReader(ABC):
    """A form of results files.

    Found through the entry-point group ``dlbricks.results``. The class must be importable without
    what reads a file, because the list of plugins imports it.
    """

    #: Name of the form, equal to the entry point's.
    name: str

    @abstractmethod
    def read(self, paths: Sequence[Path]) -> AbstractContextManager[ResultStore]:
        """Opens a temporary store with the content of results files.

        Raises:
            StoreError: If a file cannot be read, or is not a results file.
        """


def read_results(paths: Sequence[Path]) -> AbstractContextManager[ResultStore]:
    """Opens a temporary store with the content of results files.

    Raises:
        StoreError: If a file cannot be read, or is not a results file.
        UnknownPluginError: If no distribution reads results files.
    """
    if _NAME not in names("results"):
        raise UnknownPluginError(
            f"{argument('results')} comes with dlbricks-records, which is not installed",
            hint=clone_install(*(f"plugins/{each}" for each in folders_to_install("records"))),
        )
    plugin = find("results", _NAME, ResultsReader)
    opened: AbstractContextManager[ResultStore] = use(plugin, lambda: plugin.loaded().read(paths))
    return opened
