"""Dask, checked before any module that needs it is imported."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from dlbricks_core.errors import DLBricksError


def load(module: str) -> ModuleType:
    """A module of this room that imports Dask.

    Args:
        module: Name of the module within the room.

    Raises:
        DLBricksError: If Dask cannot be imported.
    """
    try:
        import_module("dlbricks_fleet.jobs")  # records the environment before Dask changes it
        settings = import_module("dlbricks_fleet.settings")
        settings.override()  # Dask reads some settings only once, when it is imported
        import_module("distributed")
        settings.override()  # and it merges its own values into settings that are mappings
        settings.hush()
    except ImportError as error:
        raise DLBricksError(
            f"a fleet needs Dask distributed, which cannot be imported ({error})",
            hint="Install it: pip install distributed",
        ) from error
    return import_module(f"dlbricks_fleet.{module}")
