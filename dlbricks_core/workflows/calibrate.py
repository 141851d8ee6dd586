"""Fits a composer's numbers to this system, on networks that are timed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot

from dlbricks_core import __version__
from dlbricks_core.compose import Composer
from dlbricks_core.compose.fitting import Deviation, Observed
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import Model
from dlbricks_core.measure.latency import interval
from dlbricks_core.measure.precision import NORMAL_HALF_WIDTH
from dlbricks_core.store import Calibration, CalibrationModel, ResultStore
from dlbricks_core.workflows.composing import CutOptions, find_composer
from dlbricks_core.workflows.context import Context, MeasureOptions
from dlbricks_core.workflows.cost import relative_half_width
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.evaluate import Evaluation, ModelEvaluation, evaluate_bricks
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.results import RunResult

CALIBRATION_SET = ("onnx:",)
"""Networks to calibrate on unless the user names others: those of the onnx package, which
come with DLBricks."""


@dataclass(frozen=True)
class Parameter:
    """A number of a composer.

    Attributes:
        name: As it is stored.
        meaning: For people.
        default: As found on the development corpus.
        value: As fitted; ``None`` if there was nothing to fit to.
    """

    name: str
    meaning: str
    default: float
    value: float | None


@dataclass(frozen=True)
class Fitting:
    """What came of a calibration.

    Attributes:
        parameters: The composer's numbers.
        calibration: As it was stored; ``None`` if no network could be timed.
        evaluation: Of the networks, with the composer's own numbers and all bricks timed.
    """

    parameters: Sequence[Parameter]
    calibration: Calibration | None
    evaluation: Evaluation


def calibrate(
    models: Sequence[Model],
    cut_options: CutOptions,
    options: MeasureOptions,
    store: ResultStore,
    observer: Observer,
) -> Fitting:
    """Times networks and all of their bricks in the same rounds, and fits to them.

    What is stored replaces an earlier calibration for the same composer, backend and system,
    and is what estimates use from then on.

    Args:
        models: In canonical form; those with the same layers count once.
        cut_options: How to cut, and the composer whose numbers to fit.
        options: How to measure.
        store: Where measurements and the calibration are kept.
        observer: Told of progress.

    Raises:
        DLBricksError: If the composer has no such numbers.
    """
    composer = calibrated_composer(cut_options.composer)
    context = Context.of(options)
    brickset, cutting_s = cut_models(models, cut_options, context, options, observer)
    every = replace(brickset, spared=frozenset())
    evaluation = evaluate_bricks(every, cutting_s, cut_options, context, options, store, observer)
    seen = _seen(evaluation)
    values: Mapping[str, float] = {}
    calibration = None
    if seen:
        values = composer.fit(_observed(seen, evaluation.result))
        key = cut_options.calibration_key(context)
        calibration = Calibration(key, values, seen, len(every.bricks), __version__)
        store.keep_calibration(calibration)
    parameters = [
        Parameter(name, meaning, getattr(composer, name), values.get(name))
        for name, meaning in composer.fitted.items()
    ]
    return Fitting(parameters, calibration, evaluation)


def forget_calibration(
    cut_options: CutOptions, options: MeasureOptions, store: ResultStore
) -> bool:
    """Removes a calibration; tells whether there was one.

    Raises:
        DLBricksError: If the composer has nothing to calibrate.
    """
    calibrated_composer(cut_options.composer)
    return store.forget_calibration(cut_options.calibration_key(Context.of(options)))


def calibrated_composer(name: str) -> Composer:
    """The composer of that name, if it has numbers to fit.

    Raises:
        DLBricksError: If there is none, or it has none.
    """
    composer = find_composer(name)
    if not composer.fitted:
        raise DLBricksError(
            f"the composer {name!r} has nothing to calibrate",
            hint="Choose segmented or similar with --composer; with neither -G nor --split.",
        )
    return composer


def _seen(evaluation: Evaluation) -> tuple[CalibrationModel, ...]:
    """Networks with both figures, those with the same layers once."""
    found = {each.model.cut.whole.signature: each for each in evaluation.models}
    return tuple(
        CalibrationModel(
            name=each.name,
            source=each.model.cut.model.source,
            signature=signature,
            error=each.error,
            scatter=_scatter(each),
        )
        for signature, each in found.items()
    )


def _scatter(each: ModelEvaluation) -> float:
    """Standard deviation that samples give an error, as if both sides' were independent."""
    assert each.model.measured is not None
    sides = each.model.estimate.scatter_ms, interval(each.model.measured.replicates)
    return hypot(*map(relative_half_width, sides)) / NORMAL_HALF_WIDTH


def _observed(seen: Sequence[CalibrationModel], result: RunResult) -> Observed:
    return Observed(
        deviations=[Deviation(model.error, model.scatter) for model in seen],
        bricks=result.brickset.bricks,
        latencies={b.brick.signature: b.latency for b in result.bricks if b.latency is not None},
    )
