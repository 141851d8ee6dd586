"""Reports: results as users see them, and as scripts read them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.report.analysis import analysis_data, analysis_page, print_analysis
    from dlbricks_core.report.columns import Column
    from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
    from dlbricks_core.report.evaluation import evaluation_data, evaluation_page, print_evaluation
    from dlbricks_core.report.files import (
        check_folder,
        check_writable,
        to_standard_output,
        write_json,
        write_text,
    )
    from dlbricks_core.report.progress import ProgressBar
    from dlbricks_core.report.remarks import print_failures
    from dlbricks_core.report.run.data import run_data
    from dlbricks_core.report.run.page import run_page
    from dlbricks_core.report.run.terminal import print_bench, print_run
    from dlbricks_core.report.tables import ms, table

__all__ = [
    "SCHEMA_VERSION",
    "Column",
    "ProgressBar",
    "analysis_data",
    "analysis_page",
    "check_folder",
    "check_writable",
    "evaluation_data",
    "evaluation_page",
    "failures_data",
    "ms",
    "print_analysis",
    "print_bench",
    "print_evaluation",
    "print_failures",
    "print_run",
    "run_data",
    "run_page",
    "table",
    "to_standard_output",
    "write_json",
    "write_text",
]

lazy(__name__)
