"""Surveys as tables and plain data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from rich.table import Table

from dlbricks_core.facts import Failure
from dlbricks_core.figures.statistics import width_text
from dlbricks_core.report import data as common
from dlbricks_core.report.heading import backend, system
from dlbricks_core.report.notes import notes_data, text
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import Console, styled, table
from dlbricks_core.wording import count
from dlbricks_survey.calibration import ProbeSettingsData
from dlbricks_survey.candidates import Judged
from dlbricks_survey.surveying import Packed, Survey


class SurveyedData(common.ListedFailuresData):
    """Result of timing networks."""

    system: common.SystemData  #: The machine that the command ran on.
    backend: common.BackendData  #: The framework.
    settings: SurveySettingsData  #: How it was done.
    seconds: float  #: Seconds that it took, loading and predicting included.
    #: Networks with a latency in the store for this backend, its options, threads and system.
    networks: int
    measured: int  #: Networks that were timed now.
    families: list[SurveyFamilyData]  #: Networks that were drawn, by family.
    #: How far predictions err: drawn networks, each predicted from networks that do not include it.
    #: Null if there are too few.
    predictions: PredictionsData | None
    #: Networks with an operator that the backend does not support.
    unsupported: list[common.FailureData]
    warnings: list[common.NoteData]  #: Disturbances of the machine.


class SurveySettingsData(ProbeSettingsData):
    """How networks of a survey were timed."""

    budget_s: float  #: Seconds after which no further networks were taken on.


class SurveyFamilyData(TypedDict):
    """A family of networks that a survey draws from."""

    name: str  #: Its name.
    networks: int  #: Networks of the family that were timed, now or before.
    #: How far predictions of the family err; null if none was judged now.
    predictions: PredictionsData | None


class PredictionErrorsData(TypedDict):
    """Errors of predictions."""

    error: float  #: Median of the errors, relative to the measured latency.
    half_width: float  #: Median half-width of the 90% intervals, relative to their middles.
    coverage: float  #: Share of the intervals that hold the measured latency.


class PredictionsData(PredictionErrorsData):
    """How far predictions are from measured latencies."""

    networks: int  #: Networks that were predicted.


class PackedData(common.ListedFailuresData):
    """Files that were written for the reference data."""

    files: list[PackedFileData]  #: One for each system, backend and number of threads.


class PackedFileData(TypedDict):
    """A contribution to the reference data."""

    path: str  #: The file.
    system: str  #: Fingerprint of the system.
    backend: str  #: Name of the framework.
    version: str  #: Version of the framework.
    threads: int  #: Threads for one operator.
    networks: int  #: Networks that it holds.


#: Output of ``dlbricks machine survey``: networks that it timed, or files that it wrote.
MACHINE_SURVEY = SurveyedData | PackedData


#: Maximum number of printed reasons why networks are left out. A backend may lack each operator of
#: a type.
_REASONS = 6

_WARNINGS = 3  #: Maximum number of printed warnings: each batch of networks may have its own.


def print_survey(console: Console, survey: Survey) -> None:
    """Prints the number of known networks, and the errors of predictions from them."""
    known = f"{backend(survey.request)}: {count(survey.networks, 'network')} known"
    console.print(styled((f"{known}, {survey.anew:,} of them timed now.", "bold")))
    for warning in survey.warnings[:_WARNINGS]:
        console.print(styled(("Warning:", "yellow"), f" {text(warning)}"))
    if survey.judged:
        console.print(_families(survey))
        console.print(_width(survey.judged))
    else:
        console.print("Too few networks were drawn to measure the width of predictions.")
    _print_unsupported(console, survey.unsupported)
    console.print("Run it again to go on.")
    print_failures(console, (*survey.unread, *survey.failures))
    console.print(styled((f"{system(survey.request)}.", "dim")))


def _print_unsupported(console: Console, unsupported: Sequence[Failure]) -> None:
    """Prints why networks are left out, the most frequent reasons first."""
    if not unsupported:
        return
    reasons = Counter(reason for each in unsupported for reason in each.reason.split("; "))
    number = count(len(unsupported), "network")
    console.print(
        styled(("Left out:", "yellow"), f" {number} with operators that the backend lacks:")
    )
    for reason, times in reasons.most_common(_REASONS):
        console.print(f"  {reason} ({times:,})")
    more = len(reasons) - _REASONS
    if more > 0:
        console.print(f"  and {count(more, 'more reason')}, all of which the JSON names.")


def _width(judged: Sequence[Judged]) -> str:
    found = _summary(judged)
    return (
        f"Predicted from all others, {count(len(judged), 'network')} of the survey "
        f"{'is' if len(judged) == 1 else 'are'} off by {found['error']:.0%} (median); "
        f"intervals are {width_text(found['half_width'])} (median) and hold "
        f"{found['coverage']:.0%} of the measured latencies."
    )


def _families(survey: Survey) -> Table:
    shown = table("Family", "Networks", "Judged", "Off by", "Interval")
    errors = _by_family(survey.judged)
    for family, number in sorted(survey.families.items()):
        found = errors.get(family)
        cells = ["-"] * 3
        if found:
            summary = _summary(found)
            cells = [str(len(found)), f"{summary['error']:.0%}", width_text(summary["half_width"])]
        shown.add_row(family, str(number), *cells)
    return shown


def _by_family(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    found: defaultdict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        found[each.family].append(each)
    return found


def _summary(judged: Sequence[Judged]) -> PredictionErrorsData:
    """Relative median error and half-width, and the coverage of the intervals."""
    return {
        "error": float(np.median([abs(np.expm1(each.error)) for each in judged])),
        "half_width": float(np.median([each.half_width for each in judged])),
        "coverage": float(np.mean([each.covered for each in judged])),
    }


def survey_data(survey: Survey) -> SurveyedData:
    """A survey as the JSON object that scripts read."""
    request, errors = survey.request, _by_family(survey.judged)
    return {
        "schema_version": common.SCHEMA_VERSION,
        "system": common.system_data(request),
        "backend": common.backend_data(request),
        "settings": {
            "threads": request.settings.threads,
            "runs": request.runs,
            "budget_s": survey.budget_s,
            "seed": request.seed,
        },
        "seconds": survey.seconds,
        "networks": survey.networks,
        "measured": survey.anew,
        "families": [
            {"name": family, "networks": number, "predictions": _predictions(errors.get(family))}
            for family, number in sorted(survey.families.items())
        ],
        "predictions": _predictions(survey.judged),
        "unsupported": common.failures_data(survey.unsupported),
        "warnings": notes_data(survey.warnings),
        "failures": common.failures_data((*survey.unread, *survey.failures)),
    }


def _predictions(judged: Sequence[Judged] | None) -> PredictionsData | None:
    return {"networks": len(judged), **_summary(judged)} if judged else None


def print_packed(console: Console, packed: Sequence[Packed]) -> None:
    """Prints the files that were written."""
    for each in packed:
        size = each.path.stat().st_size
        console.print(
            f"{each.path}: {count(len(each.contribution), 'network')}, {size / 1e3:.0f} kB",
            soft_wrap=True,
        )


def packed_data(packed: Sequence[Packed]) -> PackedData:
    """Files that were written, as the JSON object that scripts read."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "files": [
            {
                "path": str(each.path),
                "system": each.contribution.system.fingerprint,
                "backend": each.contribution.setup.backend,
                "version": each.contribution.setup.version,
                "threads": each.contribution.setup.threads,
                "networks": len(each.contribution),
            }
            for each in packed
        ],
        "failures": common.failures_data([]),
    }
