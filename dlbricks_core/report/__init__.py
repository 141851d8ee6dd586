"""Reports: results as users see them, and as scripts read them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.report.columns import Column
    from dlbricks_core.report.pages import ResultPage

__all__ = [
    "Column",
    "ResultPage",
]

lazy(__name__)
