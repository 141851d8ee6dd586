"""Tables for a terminal, and the spelling of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from dlbricks_core.compose import Estimate
    from dlbricks_core.workflows import Compared

_NAME_WIDTH = 12


def table(*columns: str, left: int = 1) -> Table:
    """An empty table whose first ``left`` columns are text; the others are numbers."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for i, column in enumerate(columns):
        result.add_column(
            column,
            justify="left" if i < left else "right",
            overflow="fold",
            no_wrap=i >= left,
            min_width=_NAME_WIDTH if i == 0 else None,
        )
    return result


def ms(value: float) -> str:
    """A value in any unit, such as milliseconds, with at least three digits: ``52.9``."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def quantity(value: float) -> str:
    """A number with three significant digits and a decimal prefix: ``8.22 G``."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if value < 999.5 or prefix == "P":
            break
        value /= 1000
    return f"{value:.0f}" if not prefix else f"{value:.{_decimals(value)}f} {prefix}"


def _decimals(value: float) -> int:
    return 0 if value >= 99.95 else 1 if value >= 9.995 else 2


def compared_cells(compared: Compared) -> list[str]:
    """Cells for an estimate and a measurement: interval, both values, and their ratio."""
    measured, normalized = compared.measured, compared.normalized
    return [
        estimate_text(compared.estimate),
        interval_text(compared.estimate.interval),
        "-" if measured is None else ms(measured.value),
        "-" if normalized is None else f"{normalized:.3f}",
    ]


def estimate_text(estimate: Estimate) -> str:
    """An estimate in the quantity's unit, marked where bricks are missing."""
    if estimate.value is None:
        return "-"
    return f"{'>' if estimate.partial else ''}{ms(estimate.value)}"


def interval_text(ends: tuple[float, float] | None) -> str:
    """An interval: ``49.3-57.0``."""
    return "-" if ends is None else "-".join(map(ms, ends))
