"""Calibrates a composer: fits its parameters to networks that are timed on this system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.compose import Composer, Plan
from dlbricks_core.compose.fitting import Observed, Whole
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Calibration, CalibrationModel, Failure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_core.workflows.composing import CutOptions, find_composer
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.evaluate import Evaluation, evaluate_bricks
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request

CALIBRATION_SET = ("onnx:",)
"""Default networks of a calibration: those of the onnx package, which come with DLBricks."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a composer.

    Attributes:
        name: Name under which it is stored.
        meaning: Description for the user.
        default: Value from the development corpus.
        value: Fitted value; ``None`` if there was no data to fit to.
    """

    name: str
    meaning: str
    default: float
    value: float | None


@dataclass(frozen=True)
class Fitting:
    """Result of a calibration.

    Attributes:
        parameters: Parameters of the composer.
        calibration: Stored calibration; ``None`` if no network could be timed.
        evaluation: Errors of the networks' estimates before the calibration, with all bricks timed.
    """

    parameters: Sequence[Parameter]
    calibration: Calibration | None
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
    estimates use it.

    Args:
        models: Networks in canonical form. Networks with equal layers count once.
        cut_options: How to cut, and the composer whose parameters are fitted.
        request: How networks are measured.
        store: Store of the measurements and the calibration.
        observer: Receives the progress.

    Raises:
        DLBricksError: If the composer has no parameters to fit.
    """
    composer = calibrated_composer(cut_options.composer)
    cutting = cut_models(models, cut_options, request, observer, store=store)
    every = Plan({**cutting.plan.timed, **cutting.brickset.bricks}, cutting.plan.recipes)
    evaluation = evaluate_bricks(replace(cutting, plan=every), request, store, observer)
    observed = _observed(evaluation)
    values: Mapping[str, float] = {}
    calibration = None
    if observed.wholes:
        values = composer.fit(observed)
        calibration = Calibration(
            key=cut_options.calibration_key(request),
            values=values,
            models=_rested_on(composer.calibrated(values), observed),
            bricks=len(cutting.brickset.bricks),
            version=__version__,
        )
        store.keep_calibration(calibration)
    parameters = [
        Parameter(name, meaning, getattr(composer, name), values.get(name))
        for name, meaning in composer.fitted.items()
    ]
    return Fitting(parameters, calibration, evaluation)


def forget_calibration(cut_options: CutOptions, request: Request, store: ResultStore) -> bool:
    """Removes a calibration. Returns whether it existed.

    Raises:
        DLBricksError: If the composer has no parameters to fit.
    """
    calibrated_composer(cut_options.composer)
    return store.forget_calibration(cut_options.calibration_key(request))


def calibrated_composer(name: str) -> Composer:
    """The composer of a name, which must have parameters to fit.

    Raises:
        DLBricksError: If there is no such composer, or it has no parameters.
    """
    composer = find_composer(name)
    if not composer.fitted:
        raise DLBricksError(
            f"the composer {name!r} has nothing to calibrate",
            hint=f"Choose segmented or similar as {argument('composer')}, and leave out "
            f"{argument('granularity')} and {argument('split')}.",
        )
    return composer


def _observed(evaluation: Evaluation) -> Observed:
    """Networks that were timed and estimated, without duplicates, and their bricks."""
    wholes = {
        each.model.cut.whole.signature: Whole(each.model.cut, each.model.measured)
        for each in evaluation.models
        if each.model.measured is not None
    }
    result = evaluation.result
    latencies = {b.brick.signature: b.latency for b in result.bricks if b.latency is not None}
    request = result.request
    return Observed(
        list(wholes.values()), result.brickset.bricks, latencies, request.setup, request.target
    )


def _rested_on(composer: Composer, observed: Observed) -> tuple[CalibrationModel, ...]:
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
