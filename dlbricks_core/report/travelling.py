"""Exports, merges, contents and deletions of stores, as text and as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
from dlbricks_core.report.files import to_standard_output
from dlbricks_core.report.heading import count
from dlbricks_core.report.tables import quantity, table
from dlbricks_core.store import Exported, Holding, Inventory, Merged, Pruned, StoreInfo

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
"""Nouns for the numbers, in display order."""

_PLURALS = {"name of a machine": "names of machines", "network with features": "networks with "
            "features"}  # fmt: skip


def print_exported(console: Console, exported: Exported, path: Path) -> None:
    """Prints a summary of an exported file."""
    console.print(f"{path}: {_size(len(exported.content))}", soft_wrap=True)
    console.print(f"It holds {_told(exported.numbers)}.")


def exported_data(exported: Exported, path: Path) -> dict[str, Any]:
    """Summary of an exported file, as a JSON object for scripts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": None if to_standard_output(path) else str(path),
        "size_bytes": len(exported.content),
        "exported": exported.numbers,
        **failures_data([]),
    }


def print_merged(console: Console, merged: Merged) -> None:
    """Prints the numbers of new entries."""
    told = _told(asdict(merged))
    console.print(f"New: {told}." if told else "Nothing is new: the store holds all of it.")


def merged_data(merged: Merged) -> dict[str, Any]:
    """Numbers of new entries, as a JSON object for scripts."""
    return {"schema_version": SCHEMA_VERSION, "added": asdict(merged), **failures_data([])}


def print_pruned(console: Console, pruned: Pruned, freed: int | None = None) -> None:
    """Prints a summary of a deletion.

    Args:
        console: The console.
        pruned: Numbers of deleted entries.
        freed: Bytes freed; ``None`` before the deletion.
    """
    told = _told(asdict(pruned))
    if freed is not None:
        console.print(f"Deleted. {_size(max(freed, 0))} are free now.")
    elif told:
        console.print(f"To delete: {told}.")
    else:
        console.print("Nothing is deleted.")


def pruned_data(pruned: Pruned, freed: int | None) -> dict[str, Any]:
    """Summary of a deletion, as a JSON object for scripts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "deleted": asdict(pruned),
        "freed_bytes": freed or 0,
        **failures_data([]),
    }


def print_inventory(console: Console, info: StoreInfo, inventory: Inventory) -> None:
    """Prints the content of a store."""
    console.print(styled((info.location, "bold"), f": {_size(info.size)}"), soft_wrap=True)
    console.print(f"It holds {_told(_numbers(info, inventory)) or 'nothing'}.")
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


def inventory_data(info: StoreInfo, inventory: Inventory) -> dict[str, Any]:
    """Content of a store, as a JSON object for scripts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "location": info.location,
        "size_bytes": info.size,
        "store_schema": inventory.schema,
        "versions": list(inventory.versions),
        "held": {
            **_numbers(info, inventory),
            "samples": sum(each.samples for each in inventory.holdings),
        },
        "holdings": [holding_data(each) for each in inventory.holdings],
        **failures_data([]),
    }


def holding_data(holding: Holding) -> dict[str, Any]:
    """Holdings of the store for one place, as plain data."""
    return {
        **asdict(holding.place),
        "networks": len(holding.networks),
        "failures": holding.failures,
        "observations": holding.observations,
        "samples": holding.samples,
        "first": holding.first or None,
        "last": holding.last or None,
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


def _told(numbers: Mapping[str, int]) -> str:
    """Numbers in words, without zeros; empty if all are zero."""
    parts = []
    for name, noun in _NOUNS.items():
        number = numbers.get(name, 0)
        several = _PLURALS.get(noun)
        if number:
            parts.append(f"{number:,} {several}" if several and number > 1 else count(number, noun))
    return ", ".join(parts)


def _size(number: int) -> str:
    return f"{quantity(number)}B" if number >= 1000 else f"{number} B"
