"""Reports: results as users see them, and as scripts read them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.report.columns import Column
    from dlbricks_core.report.pages import ResultPage
    from dlbricks_core.report.run.data import run_data
    from dlbricks_core.report.run.terminal import print_run

__all__ = [
    "Column",
    "ResultPage",
    "print_run",
    "run_data",
]

lazy(__name__)
