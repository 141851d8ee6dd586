"""Reports: results as users see them, and as scripts read them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.report.advice.data import advice_data
    from dlbricks_core.report.advice.page import advice_page
    from dlbricks_core.report.advice.terminal import print_advice
    from dlbricks_core.report.analysis.data import analysis_data
    from dlbricks_core.report.analysis.page import analysis_page
    from dlbricks_core.report.analysis.terminal import print_analysis
    from dlbricks_core.report.calibration import fitting_data, print_fitting
    from dlbricks_core.report.comparison.data import comparison_data
    from dlbricks_core.report.comparison.page import comparison_page
    from dlbricks_core.report.comparison.terminal import print_comparison
    from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
    from dlbricks_core.report.evaluation.data import evaluation_data
    from dlbricks_core.report.evaluation.page import evaluation_page
    from dlbricks_core.report.evaluation.terminal import print_evaluation
    from dlbricks_core.report.explanation.data import explanation_data
    from dlbricks_core.report.explanation.page import explanation_page
    from dlbricks_core.report.explanation.terminal import SHOWN, print_explanation
    from dlbricks_core.report.files import (
        check_folder,
        check_writable,
        to_standard_output,
        write_json,
        write_text,
    )
    from dlbricks_core.report.inspection import inspect_data, print_inspection
    from dlbricks_core.report.progress import ProgressBar
    from dlbricks_core.report.readiness import print_readiness, readiness_data
    from dlbricks_core.report.remarks import print_failures
    from dlbricks_core.report.run.data import run_data
    from dlbricks_core.report.run.page import run_page
    from dlbricks_core.report.run.terminal import print_bench, print_run
    from dlbricks_core.report.scenarios.page import scenario_page
    from dlbricks_core.report.study.data import study_data
    from dlbricks_core.report.study.page import study_page
    from dlbricks_core.report.study.record import StudyRecord, read_studies
    from dlbricks_core.report.study.terminal import print_study, write_study
    from dlbricks_core.report.study.ways import complete as study_complete
    from dlbricks_core.report.tables import ms, table
    from dlbricks_core.report.verification import print_verification, verification_data

__all__ = [
    "SCHEMA_VERSION",
    "SHOWN",
    "ProgressBar",
    "StudyRecord",
    "advice_data",
    "advice_page",
    "analysis_data",
    "analysis_page",
    "check_folder",
    "check_writable",
    "comparison_data",
    "comparison_page",
    "evaluation_data",
    "evaluation_page",
    "explanation_data",
    "explanation_page",
    "failures_data",
    "fitting_data",
    "inspect_data",
    "ms",
    "print_advice",
    "print_analysis",
    "print_bench",
    "print_comparison",
    "print_evaluation",
    "print_explanation",
    "print_failures",
    "print_fitting",
    "print_inspection",
    "print_readiness",
    "print_run",
    "print_study",
    "print_verification",
    "read_studies",
    "readiness_data",
    "run_data",
    "run_page",
    "scenario_page",
    "study_complete",
    "study_data",
    "study_page",
    "table",
    "to_standard_output",
    "verification_data",
    "write_json",
    "write_study",
    "write_text",
]

lazy(__name__)
