"""Names that plugins import from here, of facts that the table of operators holds."""

from __future__ import annotations

from typing import Any

MOST_SIZES = 8
"""Maximum length of a vector of integers that may be a shape, or from which a shape is computed."""


def __getattr__(name: str) -> Any:
    # The table is in a room above this one, which imports the room before it is complete.
    from dlbricks_core.operators import table

    if name == "PARAMETER_INPUTS":
        rows = table.OPERATORS.items()
        return {op: row.parameters for op, row in rows if row.parameters}
    if name == "made_into_indices":
        return table.made_into_indices
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
