"""Results in stores and files: export, import, repair; records, which others repeat and compare.

It adds the command ``dlbricks results``, some of whose actions are functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_records.api import export_store, import_store, merge_stores

__all__ = ["export_store", "import_store", "merge_stores"]

lazy(__name__)
