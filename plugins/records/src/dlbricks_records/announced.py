"""The command ``dlbricks results``, results files and upkeep of stores, for lists of plugins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core.commands import Action, ActionCommand, ResultsReader
from dlbricks_core.store import StoreUpkeep

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import Connection

    from dlbricks_core.store import ResultStore
    from dlbricks_core.store.database import Damage

_STORES = "dlbricks_records.stores_command"
_WRITTEN = "dlbricks_records.stores_report"
_RECORDS = "dlbricks_records.command"


class ResultsCommand(ActionCommand):
    """Which measurements are there, where do they go, and do they come out the same again?"""

    name = "results"
    purpose = "Export, import, merge and prune results; records; pages."
    grows = True
    actions = (
        Action("info", "Show the content of a store.",
               f"{_STORES}:info_command", f"{_WRITTEN}:ResultsInfoData"),
        Action("export", "Write a store to a file.",
               f"{_STORES}:export_command", f"{_WRITTEN}:ResultsExportData"),
        Action("import", "Add exported files to a store.",
               f"{_STORES}:import_command", f"{_WRITTEN}:ResultsMergeData"),
        Action("merge", "Add other stores to a store.",
               f"{_STORES}:merge_command", f"{_WRITTEN}:ResultsMergeData"),
        Action("check", "Name damaged rows of a store.",
               f"{_STORES}:check_command", f"{_WRITTEN}:ResultsCheckData"),
        Action("prune", "Delete results from a store.",
               f"{_STORES}:prune_command", f"{_WRITTEN}:ResultsPruneData"),
        Action("compare", "Compare two results, with a status for CI.",
               f"{_RECORDS}:compare_command", "dlbricks_records.comparison:ResultsCompareData"),
        Action("record", "Write what a command did, to be repeated.",
               f"{_RECORDS}:record_command", "dlbricks_records.json_records:ResultsRecordData"),
        Action("repeat", "Repeat a record, and compare.",
               f"{_RECORDS}:repeat_command", "dlbricks_records.repetition:ResultsRepeatData",
               predicts=True),
    )  # fmt: skip


class ExportedResults(ResultsReader):
    """Files that ``dlbricks results export`` and ``dlbricks suite time`` write."""

    name = "exported"

    def read(self, paths: Sequence[Path]) -> AbstractContextManager[ResultStore]:
        """Opens a temporary store with the content of results files."""
        from dlbricks_records.results_files import read_results

        return read_results(paths)


class Upkeep(StoreUpkeep):
    """Migrations of earlier stores, and rows of damaged ones."""

    name = "upkeep"

    def migrate(self, connection: Connection, revision: str) -> None:
        """Runs the migrations that a store lacks."""
        from dlbricks_records.upkeep import migrations

        migrations.migrate(connection, revision)

    def salvage(self, uri: str, target: sqlite3.Connection) -> Damage:
        """Copies all rows of a damaged file that can be read."""
        from dlbricks_records.upkeep.salvage import salvage

        return salvage(uri, target)

    def with_new_first_page(self, path: Path) -> sqlite3.Connection | None:
        """The file's content in memory, with the first page that a new store has."""
        from dlbricks_records.upkeep.salvage import replaced

        return replaced(path)
