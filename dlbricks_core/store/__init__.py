"""The result store: a database of everything that was measured."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.store.database import AbsentStoreError, DatabaseKind
    from dlbricks_core.store.opened import locate
    from dlbricks_core.store.store import ResultStore
    from dlbricks_core.store.upkeep import StoreUpkeep

__all__ = ["AbsentStoreError", "DatabaseKind", "ResultStore", "StoreUpkeep", "locate"]

lazy(__name__)
