"""The result store: a database of everything that was measured."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.store.database import AbsentStoreError, DatabaseKind
    from dlbricks_core.store.described import Holding, Inventory
    from dlbricks_core.store.merging import Merged
    from dlbricks_core.store.opened import locate
    from dlbricks_core.store.portable import (
        Exported,
        export_measurements,
        exported,
        import_measurements,
        is_exported,
        read_records,
        read_stream,
    )
    from dlbricks_core.store.pruning import Pruned
    from dlbricks_core.store.records import Record
    from dlbricks_core.store.selection import Selection
    from dlbricks_core.store.store import ResultStore, StoreCheck, StoreInfo

__all__ = [
    "AbsentStoreError",
    "DatabaseKind",
    "Exported",
    "Holding",
    "Inventory",
    "Merged",
    "Pruned",
    "Record",
    "ResultStore",
    "Selection",
    "StoreCheck",
    "StoreInfo",
    "export_measurements",
    "exported",
    "import_measurements",
    "is_exported",
    "locate",
    "read_records",
    "read_stream",
]

lazy(__name__)
