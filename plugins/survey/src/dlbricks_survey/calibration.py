"""Calibrations and characterizations: numbers and networks that predictions rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
from dlbricks_accuracy.evaluation import Evaluation, evaluate_bricks
from dlbricks_accuracy.report import CheckAccuracyData, evaluation_data
from rich.table import Table
from rich.text import Text

from dlbricks_core.compose import Composer, Plan
from dlbricks_core.compose.fitting import FittingData, Whole
from dlbricks_core.compose.options import CutOptions, find_composer
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Calibration, CalibrationModel, Failure
from dlbricks_core.figures.statistics import spread_text
from dlbricks_core.importers import LoadOptions
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report import data as common
from dlbricks_core.report.heading import backend, print_result, subject, system
from dlbricks_core.report.notes import notes_data, text
from dlbricks_core.report.remarks import print_failures, run_remarks
from dlbricks_core.report.tables import Console, ms, styled, table
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument, count
from dlbricks_survey.characterization import Characterization


@dataclass(frozen=True)
class FittedParameter:
    """A parameter of a composer."""

    name: str  #: Name under which it is stored.
    meaning: str  #: Description for the user.
    default: float  #: Value from the development corpus.
    value: float | None  #: Fitted value; ``None`` if there was no data to fit to.


class FittedData(CheckAccuracyData):
    """Networks that a composer was fitted to, and its numbers."""

    parameters: list[FittedParameter]  #: Fitted numbers.


class ProbedData(common.ListedFailuresData):
    """Networks that were timed because they narrow predictions for this system most."""

    system: common.SystemData  #: The machine that the command ran on.
    backend: common.BackendData  #: The framework.
    quantity: common.QuantityData  #: Quantity of the figures, and their unit.
    settings: ProbeSettingsData  #: How they were timed.
    #: Seconds that timing them took, loading included, without starting the framework.
    seconds: float
    known: int  #: Networks that were measured here before.
    other_systems: list[str]  #: Processors of the systems that expectations come from.
    probes: list[ProbeData]  #: The networks, in the order in which they were timed.
    half_width_before: float  #: Median of the half-widths below, before.
    half_width: float  #: The same with the probes.
    #: Networks whose predictions the probes improve: the models, or one of each family in the
    #: reference data.
    networks: list[ProbedNetworkData]
    warnings: list[common.NoteData]  #: Disturbances of the measurement.


class ProbeSettingsData(TypedDict):
    """How probes were timed."""

    threads: int  #: Threads for one operator.
    runs: int  #: Runs of each probe.
    seed: int  #: Seed of weights and inputs.


class ProbeData(TypedDict):
    """A network that was timed."""

    name: str  #: Family that it was drawn from, or model that it is a part of.
    signature: str  #: Its signature.
    layers: list[str]  #: Its operators.
    estimate: float  #: Latency that was expected before any probe.
    measured: float  #: Measured latency.


class ProbedNetworkData(TypedDict):
    """A network whose prediction the probes improve."""

    name: str  #: Its name, or its family.
    #: Half-width of the 90% interval of its latency, relative to it, before.
    half_width_before: float
    half_width: float  #: The same with the probes.


#: Output of ``dlbricks machine calibrate``: fitted numbers, or networks that it timed.
MACHINE_CALIBRATE = FittedData | ProbedData


#: Default networks of a calibration: the networks of the onnx package, which come with DLBricks.
CALIBRATION_SET = ("onnx:",)


@dataclass(frozen=True)
class Fitting:
    """Result of a calibration."""

    parameters: Sequence[FittedParameter]  #: Parameters of the composer.
    calibration: Calibration | None  #: Stored calibration; ``None`` if no network could be timed.
    #: Errors of the networks' estimates before the calibration, with all bricks timed.
    evaluation: Evaluation

    def lacking(self, unread: Sequence[Failure]) -> Fitting:
        """A copy of the result with the models that could not be loaded."""
        return replace(self, evaluation=self.evaluation.lacking(unread))


def calibrate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> Fitting:
    """Times networks and all of their bricks in the same rounds, and fits parameters to them.

    The calibration replaces an earlier one of the same composer, backend and system. Later
    estimates use it. Networks with equal layers count once.

    Raises:
        DLBricksError: If the composer has no parameters to fit.
    """
    composer = calibrated_composer(cut_options.composer)
    cutting = cut_models(models, cut_options, request, observer, store, calibrated=False)
    every = Plan({**cutting.plan.timed, **cutting.brickset.bricks}, cutting.plan.recipes)
    evaluation = evaluate_bricks(replace(cutting, plan=every), request, store, observer)
    evaluation = replace(evaluation, left_out=[*evaluation.left_out, *_disturbed(evaluation)])
    observed = _observed(evaluation)
    values: Mapping[str, float] = {}
    calibration = None
    if observed.wholes:
        values = composer.fit(observed)
        calibration = Calibration(
            key=request.calibration_key(cut_options),
            values=values,
            models=_rested_on(composer.calibrated(values), observed),
            bricks=len(cutting.brickset.bricks),
            version=__version__,
        )
        store.keep_calibration(calibration)
    parameters = [
        FittedParameter(name, meaning, getattr(composer, name), values.get(name))
        for name, meaning in composer.fitted.items()
    ]
    return Fitting(parameters, calibration, evaluation)


def forget_calibration(cut_options: CutOptions, request: Request, store: ResultStore) -> bool:
    """Removes a calibration. Returns whether it existed."""
    calibrated_composer(cut_options.composer)
    return store.forget_calibration(request.calibration_key(cut_options))


def calibrated_composer(name: str) -> Composer:
    """The composer of a name, which must have parameters to fit."""
    composer = find_composer(name)
    if not composer.fitted:
        raise DLBricksError(
            f"the composer {name!r} has nothing to calibrate",
            hint=f"Choose segmented or similar as {argument('composer')}, and leave out "
            f"{argument('granularity')} and {argument('split')}.",
        )
    return composer


def _disturbed(evaluation: Evaluation) -> Iterator[Failure]:
    for each in evaluation.models:
        if load := each.model.disturbance.load:
            reason = f"other programs used {load:.0%} of the CPUs meanwhile"
            yield Failure(each.name, reason, "measure")


def _observed(evaluation: Evaluation) -> FittingData:
    """Networks that were timed and estimated, without duplicates, and their bricks.

    Networks that others disturbed are left out.
    """
    wholes = {
        each.model.cut.whole.signature: Whole(each.model.cut, each.model.measured)
        for each in evaluation.models
        if each.model.measured is not None and not each.model.disturbance.load
    }
    result = evaluation.result
    latencies = {b.brick.signature: b.latency for b in result.bricks if b.latency is not None}
    request = result.request
    return FittingData(
        list(wholes.values()), result.brickset.bricks, latencies, request.setup, request.target
    )


def _rested_on(composer: Composer, observed: FittingData) -> tuple[CalibrationModel, ...]:
    """The networks behind a calibration, with estimates by the calibrated composer."""
    return tuple(
        CalibrationModel(
            name=whole.cut.model.name,
            source=whole.cut.model.source,
            signature=whole.cut.whole.signature,
            error=deviation.error,
            scatter=deviation.scatter,
        )
        for whole, deviation in zip(observed.wholes, composer.deviations(observed), strict=True)
    )


def print_fitting(console: Console, fitting: Fitting) -> None:
    """Prints the fitted parameters, the networks behind them, and doubts about them."""
    result = fitting.evaluation.result
    names = ", ".join(each.subject for each in fitting.evaluation.left_out)
    shown: list[str | Text | Table] = [
        styled(("Left out:", "red"), f" {names}") if names else "",
    ]
    if fitting.calibration is not None:
        shown += [
            _parameters(fitting),
            f"From now on estimates of {result.cut_options.composer} use this, where backend, "
            "options, threads and system are the same; those of these networks keep the "
            f"composer's own error. 'machine calibrate' with {argument('forget')} removes it.",
        ]
    answer = [f"{subject(result)}: {_fitting_answer(fitting)}"]
    print_result(console, result, answer, shown, run_remarks(result))


def _fitting_answer(fitting: Fitting) -> str:
    calibration = fitting.calibration
    if calibration is None:
        return "Nothing was fitted: no model has both an estimate and a latency."
    errors = [abs(model.error) for model in calibration.models]
    return (
        f"fitted on {count(len(errors), 'network')}, whose estimates are off by "
        f"{sum(errors) / len(errors):.2%}, and {count(calibration.bricks, 'brick')}, all timed."
    )


def _parameters(fitting: Fitting) -> Table:
    shown = table("Number", "Own", "Fitted", "What it is")
    shown.columns[-1].justify = "left"
    shown.columns[-1].no_wrap = False
    for each in fitting.parameters:
        fitted = "-" if each.value is None else f"{each.value:.3f}"
        shown.add_row(each.name, f"{each.default:.3f}", fitted, each.meaning)
    return shown


def fitting_data(fitting: Fitting, load: LoadOptions | None = None) -> FittedData:
    """The run as written by :func:`evaluation_data`, with the resulting calibration."""
    return {
        **evaluation_data(fitting.evaluation, load),
        "calibration": common.calibration_data(fitting.calibration),
        "parameters": list(map(common.plain, fitting.parameters)),
    }


_WARNINGS = 3  #: Maximum number of printed warnings: each batch of probes may have its own.


def print_probing(
    console: Console, probing: Characterization, unread: Sequence[Failure] = ()
) -> None:
    """Prints the timed networks, and the gain in precision for others."""
    console.print(styled((f"{backend(probing.request)}: {_probing_answer(probing)}", "bold")))
    for each in (*probing.ledger.warnings[:_WARNINGS], *probing.dropped):
        console.print(styled(("Warning:", "yellow"), f" {text(each)}"))
    if probing.probes:
        rows = [
            (p.name, " ".join(p.brick.operators), ms(p.expected_ms), ms(p.measured.value))
            for p in probing.probes
        ]
        console.print(table("Probe", "Layers", "Expected ms", "Measured ms", rows=rows, left=2))
    for each in probing.ledger.notes:
        console.print(f"Note: {text(each)}.")
    if not probing.probes and not probing.ledger.failures:
        console.print(
            f"No further probe would narrow the predictions: {count(probing.known, 'network')} "
            "had been measured here before."
        )
    if probing.elsewhere:
        console.print(f"Expected from measurements on: {', '.join(probing.elsewhere)}.")
    else:
        console.print("No other system is known with this backend: expectations are rough.")
    print_failures(console, (*unread, *_failures(probing)))
    console.print(styled((f"{system(probing.request)}.", "dim")))


def _probing_answer(probing: Characterization) -> str:
    before, after = _median(probing.before), _median(probing.after)
    widths = f"{spread_text(before)} before, {spread_text(after)} now"
    networks = count(len(probing.asked), "network")
    cost = f"{count(len(probing.probes), 'probe')}, {probing.seconds:.0f} s"
    return f"{widths} (median 90% interval of {networks}); {cost}."


def _median(widths: Sequence[float] | np.ndarray[Any, Any]) -> float:
    return float(np.median(widths)) if len(widths) else 0.0


def probing_data(probing: Characterization, unread: Sequence[Failure] = ()) -> ProbedData:
    """Probes of a system as the JSON object that scripts read."""
    request = probing.request
    widths = zip(probing.asked, probing.before, probing.after, strict=True)
    return {
        "schema_version": common.SCHEMA_VERSION,
        "system": common.system_data(request),
        "backend": common.backend_data(request),
        "quantity": common.quantity_data(request.quantity),
        "settings": {
            "threads": request.settings.threads,
            "runs": request.runs,
            "seed": request.seed,
        },
        "seconds": probing.seconds,
        "known": probing.known,
        "other_systems": list(probing.elsewhere),
        "probes": [
            {
                "name": each.name,
                "signature": each.brick.signature,
                "layers": list(each.brick.operators),
                "estimate": each.expected_ms,
                "measured": each.measured.value,
            }
            for each in probing.probes
        ],
        "half_width_before": _median(probing.before),
        "half_width": _median(probing.after),
        "networks": [
            {"name": name, "half_width_before": float(before), "half_width": float(after)}
            for name, before, after in widths
        ],
        "warnings": notes_data([*probing.ledger.warnings, *probing.dropped]),
        "failures": common.failures_data((*unread, *_failures(probing))),
    }


def _failures(probing: Characterization) -> list[Failure]:
    """Networks that could not be timed. Networks that the backend does not support do not count."""
    ledger = probing.ledger
    return [
        Failure(f"probe {key.subject.signature[:8]}", reason, "measure")
        for key, reason in ledger.failures.items()
        if key not in ledger.unsupported
    ]
