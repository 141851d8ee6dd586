"""Contents of stores: selections, records, exported files, merging, pruning and checks."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_records.contents.check import StoreCheck, StoreInfo, check, info
    from dlbricks_records.contents.exported import (
        Exported,
        export_measurements,
        exported,
        import_measurements,
        is_exported,
        read_records,
        read_stream,
    )
    from dlbricks_records.contents.inventory import Holding, Inventory, inventory
    from dlbricks_records.contents.merging import Merged, merge
    from dlbricks_records.contents.pruning import Pruned, prune
    from dlbricks_records.contents.records import KnownSystem, Record, records
    from dlbricks_records.contents.selection import Selection

__all__ = [
    "Exported",
    "Holding",
    "Inventory",
    "KnownSystem",
    "Merged",
    "Pruned",
    "Record",
    "Selection",
    "StoreCheck",
    "StoreInfo",
    "check",
    "export_measurements",
    "exported",
    "import_measurements",
    "info",
    "inventory",
    "is_exported",
    "merge",
    "prune",
    "read_records",
    "read_stream",
    "records",
]

lazy(__name__)
