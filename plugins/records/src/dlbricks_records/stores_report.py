"""Exports, imports and the content of stores, as tables and plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict, cast

from dlbricks_core.facts import Failure
from dlbricks_core.report import data as common
from dlbricks_core.report.files import to_standard_output
from dlbricks_core.report.tables import Console, size_text, styled, table
from dlbricks_core.wording import count
from dlbricks_records.contents import (
    Exported,
    Inventory,
    Merged,
    Pruned,
    StoreCheck,
    StoreInfo,
)
from dlbricks_records.holdings import HoldingData, holding_data


class ResultsExportData(common.ListedFailuresData):
    """Output of ``dlbricks results export``."""

    path: str | None  #: The file; null for standard output.
    size_bytes: int  #: Size of the file.
    exported: TransferredData  #: Content of the file.


class RecordCountsData(TypedDict):
    """Numbers of records."""

    observations: int  #: Observations, each of one or several samples.
    measurements: int  #: Measurements: questions with their observations.
    systems: int  #: Systems.
    sessions: int  #: Sessions.
    networks: int  #: Networks whose features are kept.
    calibrations: int  #: Calibrations.
    rewrites: int  #: Models whose graph on a backend is known.


class TransferredData(RecordCountsData):
    """Numbers of records in a file."""

    machines: int  #: Names of machines.


class ResultsMergeData(common.ListedFailuresData):
    """Output of ``dlbricks results import`` and ``results merge``: numbers of added rows."""

    added: TransferredData  #: New records; all 0 if there were none.


class ResultsInfoData(common.ListedFailuresData):
    """Output of ``dlbricks results info``."""

    location: str  #: The store.
    size_bytes: int  #: Its size.
    store_schema: str  #: Version of its tables, after an upgrade.
    versions: list[str]  #: Versions of DLBricks that measured, as far as they are known.
    content: StoreContentData  #: Content of the store.
    holdings: list[HoldingData]  #: The same by system, framework and threads.


class ResultsCheckData(common.ListedFailuresData):
    """Output of ``dlbricks results check``."""

    location: str  #: The store.
    tables: list[CheckedTableData]  #: Rows of each table.
    findings: list[str]  #: Damage of the file's pages and indices, as SQLite describes it.


class CheckedTableData(TypedDict):
    """Rows of a table of a store."""

    table: str  #: Name of the table.
    intact: int  #: Number of rows that can be read.
    #: Number of rows that cannot be read; where the number is unknown, rows in a gap count as one.
    damaged: int
    named: list[DamagedRowsData]  #: The first of the damaged rows.


class DamagedRowsData(TypedDict):
    """A damaged row of a store, or several."""

    rows: str  #: The row in words, such as ``row 3 of observations``.
    reason: str  #: Reason why it cannot be read.


class DeletedData(RecordCountsData):
    """Numbers of deleted records."""

    failures: int  #: Measurements that failed.


class StoreContentData(DeletedData):
    """Numbers of records in a store."""

    samples: int  #: Samples in all observations.


class ResultsPruneData(common.ListedFailuresData):
    """Output of ``dlbricks results prune``: numbers of deleted rows."""

    deleted: DeletedData  #: Deleted records; all 0 if the user did not agree.
    freed_bytes: int  #: Bytes that the file has become smaller.


#: Nouns for the numbers, in display order.
_NOUNS = {
    "observations": "observation",
    "measurements": "measurement",
    "failures": "failure",
    "systems": "system",
    "machines": "name of a machine",
    "sessions": "session",
    "networks": "network with features",
    "calibrations": "calibration",
    "rewrites": "rewritten model",
}

_PLURALS = {"name of a machine": "names of machines", "network with features": "networks with "
            "features"}  # fmt: skip


def print_exported(console: Console, exported: Exported, path: Path) -> None:
    """Prints a summary of an exported file."""
    console.print(f"{path}: {size_text(len(exported.content))}", soft_wrap=True)
    console.print(f"It contains {_in_words(exported.numbers)}.")


def exported_data(exported: Exported, path: Path) -> ResultsExportData:
    """Summary of an exported file, as a JSON object for scripts."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "path": None if to_standard_output(path) else str(path),
        "size_bytes": len(exported.content),
        "exported": cast("TransferredData", exported.numbers),
        "failures": common.failures_data([]),
    }


def print_merged(console: Console, merged: Merged) -> None:
    """Prints the numbers of new entries."""
    words = _in_words(asdict(merged))
    console.print(f"New: {words}." if words else "Nothing is new: the store has all records.")


def merged_data(merged: Merged) -> ResultsMergeData:
    """Numbers of new entries, as a JSON object for scripts."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "added": cast("TransferredData", asdict(merged)),
        "failures": common.failures_data([]),
    }


def print_pruned(console: Console, pruned: Pruned, freed: int | None = None) -> None:
    """Prints a summary of a deletion."""
    words = _in_words(asdict(pruned))
    if freed is not None:
        console.print(f"Deleted. {size_text(max(freed, 0))} are free now.")
    elif words:
        console.print(f"To delete: {words}.")
    else:
        console.print("Nothing is deleted.")


def pruned_data(pruned: Pruned, freed: int | None) -> ResultsPruneData:
    """Summary of a deletion, as a JSON object for scripts."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "deleted": cast("DeletedData", asdict(pruned)),
        "freed_bytes": freed or 0,
        "failures": common.failures_data([]),
    }


def print_check(console: Console, check: StoreCheck) -> None:
    """Prints the numbers of intact and damaged rows, and the first of the damaged ones."""
    console.print(styled((check.location, "bold")), soft_wrap=True)
    shown = table("Table", "Intact", "Damaged", left=1)
    for name in dict.fromkeys((*check.rows, *check.damage.counts)):
        damaged = check.damage.counts[name]
        shown.add_row(name, f"{check.rows.get(name, 0):,}", f"{damaged:,}" if damaged else "-")
    console.print(shown)
    for rows in check.damage.named.values():
        for row, reason in rows.items():
            console.print(f"{row}: {reason}", soft_wrap=True)
    for finding in check.findings:
        console.print(f"The file: {finding}", soft_wrap=True)
    if check.is_sound:
        console.print("Nothing is damaged.")
    else:
        console.print("Damaged rows are ignored. 'results merge' copies the others to a new store.")


def check_data(check: StoreCheck) -> ResultsCheckData:
    """Intact and damaged rows of a store, as a JSON object for scripts."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "location": check.location,
        "tables": [
            {
                "table": name,
                "intact": check.rows.get(name, 0),
                "damaged": check.damage.counts[name],
                "named": [
                    {"rows": row, "reason": reason}
                    for row, reason in check.damage.named.get(name, {}).items()
                ],
            }
            for name in dict.fromkeys((*check.rows, *check.damage.counts))
        ],
        "findings": list(check.findings),
        "failures": common.failures_data(
            [
                *(
                    Failure(name, f"{number:,} damaged", "read")
                    for name, number in check.damage.counts.items()
                ),
                *(Failure("the file", finding, "read") for finding in check.findings),
            ]
        ),
    }


def print_inventory(console: Console, info: StoreInfo, inventory: Inventory) -> None:
    """Prints the content of a store."""
    console.print(styled((info.location, "bold"), f": {size_text(info.size)}"), soft_wrap=True)
    console.print(f"It contains {_in_words(_numbers(info, inventory)) or 'nothing'}.")
    if inventory.holdings:
        shown = table("System", "Framework", "Threads", "Networks", "Samples", "Failed", "Last",
                      left=2)  # fmt: skip
        for each in inventory.holdings:
            place = each.place
            shown.add_row(
                place.machine or place.system[:8],
                f"{place.backend} {place.version}",
                str(place.threads),
                *(f"{number:,}" for number in (len(each.networks), each.samples, each.failures)),
                each.last[:10] or "-",
            )
        console.print(shown)
    versions = ", ".join(inventory.versions) or "unknown"
    console.print(styled((f"Measured with DLBricks {versions}; schema {inventory.schema}.", "dim")))


def inventory_data(info: StoreInfo, inventory: Inventory) -> ResultsInfoData:
    """Content of a store, as a JSON object for scripts."""
    content = {
        **_numbers(info, inventory),
        "samples": sum(each.samples for each in inventory.holdings),
    }
    return {
        "schema_version": common.SCHEMA_VERSION,
        "location": info.location,
        "size_bytes": info.size,
        "store_schema": inventory.schema,
        "versions": list(inventory.versions),
        "content": cast("StoreContentData", content),
        "holdings": [holding_data(each) for each in inventory.holdings],
        "failures": common.failures_data([]),
    }


def _numbers(info: StoreInfo, inventory: Inventory) -> dict[str, int]:
    return {
        "systems": info.systems,
        "sessions": inventory.sessions,
        "measurements": info.measurements,
        "failures": info.failures,
        "observations": info.observations,
        "networks": inventory.networks,
        "calibrations": inventory.calibrations,
        "rewrites": inventory.rewrites,
    }


def _in_words(numbers: Mapping[str, int]) -> str:
    """Numbers in words, without zeros; empty if all are zero."""
    parts = []
    for name, noun in _NOUNS.items():
        number = numbers.get(name, 0)
        several = _PLURALS.get(noun)
        if number:
            parts.append(f"{number:,} {several}" if several and number > 1 else count(number, noun))
    return ", ".join(parts)
