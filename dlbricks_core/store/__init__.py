"""The result store: a database of everything that was measured."""

from dlbricks_core.store.location import locate
from dlbricks_core.store.portable import export_measurements, import_measurements
from dlbricks_core.store.store import ResultStore, StoreInfo

__all__ = ["ResultStore", "StoreInfo", "export_measurements", "import_measurements", "locate"]
