"""Fitted numbers: data files of numbers that follow from measurements, and where each comes from.

A room has them in a file ``fitted.json``, in groups of numbers that were fitted together. Files are
read when a number is first needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = "fitted.json"
"""Name of the file in the folder of the modules that read its numbers."""


@dataclass(frozen=True)
class Fitted:
    """Numbers that were fitted together.

    Attributes:
        values: The numbers by name. The module that reads them states their units.
        fitted_by: Command that fits them anew, from the root of the repository. ``None`` where no
            command can.
        date: Day of the fit, in ISO 8601.
        commit: Commit with whose code they were fitted.
        rests_on: Digest or version of each thing that they rest on, by its name. Where one differs
            from today's, the numbers are out of date.
        note: Restrictions: why no command fits them, or why its result would differ.
    """

    values: Mapping[str, Any]
    fitted_by: str | None
    date: str
    commit: str
    rests_on: Mapping[str, str]
    note: str = ""


@cache
def groups(path: Path) -> Mapping[str, Fitted]:
    """All groups of a file, by name."""
    return {name: Fitted(**group) for name, group in json.loads(path.read_text("utf-8")).items()}


def values(module: str, group: str) -> Mapping[str, Any]:
    """Numbers of a group.

    Args:
        module: ``__file__`` of a module beside the data file.
        group: Name of the group.
    """
    return groups(Path(module).with_name(FILE))[group].values


def of_backend(module: str, group: str, backend: str) -> Mapping[str, Any]:
    """Numbers of a group for a backend; for an unknown backend, those of all together.

    Args:
        module: ``__file__`` of a module beside the data file.
        group: Name of the group.
        backend: Name of the backend.
    """
    every = values(module, group)
    found: Mapping[str, Any] = every.get(backend, every["*"])
    return found
