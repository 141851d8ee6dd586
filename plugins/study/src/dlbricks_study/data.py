"""Studies as plain data, with the published figures of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NotRequired, TypedDict, cast

from dlbricks_accuracy import report as evaluation
from dlbricks_accuracy.evaluation import Evaluation, ModelEvaluation

from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.importers import LoadOptions, ModelCollection, Publication, PublishedFigure
from dlbricks_core.plugins import Plugin, attempt, discover
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import notes_data
from dlbricks_study.experiments import Study
from dlbricks_study.record import (
    SamplingSpan,
    definitions,
    failures,
    left_out_models,
    remarks,
    ways,
)
from dlbricks_study.repeats import (
    AnalysisTotalsData,
    AnalyzedModelData,
    SimilarityData,
    analysis_data,
)


class StudyData(common.ListedFailuresData):
    """Output of ``dlbricks study``, and ``study.json``."""

    system: common.SystemData  #: The machine that the command ran on.
    backend: common.BackendData  #: The framework.
    quantity: common.QuantityData  #: Quantity of all figures, and their unit.
    settings: StudySettingsData  #: How it was done.
    measured: MeasuredSpanData  #: When samples were taken.
    timer: common.TimerData  #: Cost of a call.
    models: list[StudyModelData]  #: In the order in which they were named.
    totals: AnalysisTotalsData  #: All models together.
    similarity: SimilarityData  #: Of every two models.
    evaluations: list[EvaluatedWayData]  #: The paper's way by granularity, then DLBricks' own.
    bricks: list[WayBrickData]  #: Bricks that each way times.
    published: PublishedData | None  #: Null unless all models are the paper's.
    left_out: list[StudyLeftOutData]  #: Models that figures are without.
    notes: list[common.NoteData]  #: Notes for people.


class StudySettingsData(common.ProtocolSettingsData):
    """How models were read, cut and measured."""

    granularities: list[int]  #: Of the paper's bricks.


class MeasuredSpanData(TypedDict):
    """When samples were taken."""

    begin: str | None  #: First one, in ISO 8601.
    end: str | None  #: Last one.
    sessions: int  #: In how many goes.


class MeasuredModelData(TypedDict):
    """Measurement of a whole model."""

    measured: float | None  #: Measured value of the whole model.
    measured_interval: common.Interval | None  #: 90% interval of that.
    measured_samples: list[float]  #: Raw samples of the whole model.


class StudyModelData(AnalyzedModelData, MeasuredModelData):
    """A model of a study."""


class EvaluatedWayData(evaluation.EvaluationFiguresData, common.TotalsData):
    """One way of cutting and composing."""

    granularity: int  #: The most layers that a brick holds.
    split: str  #: Strategy by which models were cut.
    composer: str  #: How latencies were joined.
    bricks: int  #: Bricks, each as often as it occurs.
    speedup: WaySpeedupData  #: Time that benchmarking by bricks saves.
    models: list[WayModelData]  #: Models with an estimate and a latency.


class WayModelData(TypedDict):
    """Figures of a model by one way."""

    name: str  #: Name of the model.
    source: str  #: File or collection, as the user named it.
    bricks: int  #: Bricks, each as often as it occurs.
    unique_bricks: int  #: Different bricks.
    estimate: float  #: Estimate in the quantity's unit.
    interval: common.Interval | None  #: 90% interval of it.
    parallel_estimate: float | None  #: Sum along the critical path.
    measured: float  #: Measured value of the whole model.
    normalized: float  #: Estimate over measured latency.
    error: float  #: Relative error: the normalized estimate minus 1.
    covered: bool  #: Whether the interval of this hour holds the measured latency.
    same_rounds: bool  #: Whether every brick was timed in rounds in which the model was.


class WaySpeedupData(TypedDict):
    """Speedups by definition."""

    paper: evaluation.SpeedupData | None  #: One run of each model and each timed brick.
    wall_clock: evaluation.SpeedupData | None  #: Seconds spent.


class WayBrickData(TypedDict):
    """A brick that one way times."""

    composer: str  #: Of the way.
    granularity: int  #: Of the way.
    signature: str  #: Of the brick.
    operators: str  #: In order, with spaces between.
    occurrences: int  #: How often it occurs in all models.
    value: float  #: Value of the brick in the quantity's unit, the call's cost included.
    call_ms: float  #: Cost of a call, in milliseconds.


class PublishedData(TypedDict):
    """Published figures of the paper."""

    source: str  #: The paper.
    models: NotRequired[int]  #: Number of models that the paper studied.
    figures: list[PublishedFigureData]  #: Its figures.


class PublishedFigureData(TypedDict):
    """A figure of the paper beside ours."""

    figure: int  #: Number of the plot in the paper.
    what: str  #: Its content.
    where: str  #: On which system, at which granularity.
    paper: str  #: As the paper words it.
    value: float  #: The same as a number.
    ours: float | None  #: Of this study.
    ours_text: str  #: The same, for people.


class StudyLeftOutData(evaluation.LeftOutData):
    """A model that figures are without."""

    ways: list[str]  #: In which ways of cutting.


def published_data(study: Mapping[str, Any]) -> PublishedData | None:
    """Published numbers and the study's own; ``None`` where nothing was published."""
    plugin = _collection_of(model["source"] for model in study["models"])
    publication: Publication | None = plugin.loaded.published if plugin else None
    if plugin is None or publication is None:
        return None
    return {
        "source": publication.source,
        "models": publication.models,
        "figures": [
            {
                "figure": each.figure,
                "what": each.what,
                "where": each.where,
                "paper": each.text,
                "value": each.value,
                "ours": ours,
                "ours_text": text,
            }
            for each in publication.figures
            for ours, text in [_ours(plugin, each, study)]
        ],
    }


def _ours(
    plugin: Plugin, figure: PublishedFigure, study: Mapping[str, Any]
) -> tuple[float | None, str]:
    """A study's own number and its text. A defective plugin does not stop the study."""
    found = attempt(plugin, lambda: figure.ours(study))
    if isinstance(found, DLBricksError):
        return None, f"failed: {found.message}"
    return found, figure.worded(found)


def _collection_of(sources: Iterable[str]) -> Plugin | None:
    """The common collection of all models; ``None`` if there is none.

    Args:
        sources: Source of each model, such as ``paper:1``.
    """
    names = {source.partition(":")[0] for source in sources}
    if len(names) != 1:
        return None
    found = discover("models", ModelCollection)
    return next((each for each in found if each.name in names and each.loaded), None)


#: Settings that differ between the ways of a study.
_OF_WAYS = ("granularity", "split", "composer", "predictor")


def study_data(study: Study, load: LoadOptions | None = None) -> StudyData:
    """A study as the JSON object that scripts read.

    ``models``, ``totals`` and ``similarity`` are what ``dlbricks show repeats`` writes, with each
    model's measured latency added. ``evaluations`` holds the paper's way by granularity,
    then DLBricks' own composers, and ``bricks`` the unique bricks of each way. Errors and
    shares are fractions: 0.03 is 3%.
    """
    result = study.default.result
    request = result.request
    analysis = analysis_data(study.analysis)
    span = SamplingSpan.of(study)
    settings = common.settings_data(result, load)
    about = {name: value for name, value in settings.items() if name not in _OF_WAYS}
    data: StudyData = {
        "schema_version": analysis["schema_version"],
        "system": {**common.system_data(request), "description": request.target.describe()},
        "backend": common.backend_data(request),
        "quantity": common.quantity_data(request.quantity),
        "settings": cast(
            "StudySettingsData", {**about, "granularities": list(study.by_granularity)}
        ),
        "measured": {
            "begin": span.begin.isoformat(timespec="seconds") if span else None,
            "end": span.end.isoformat(timespec="seconds") if span else None,
            "sessions": span.sessions if span else 0,
        },
        "timer": {"call_ms": result.call_ms},
        "models": [
            {**layers, **_measured(model)}
            for layers, model in zip(analysis["models"], result.models, strict=True)
        ],
        "totals": analysis["totals"],
        "similarity": analysis["similarity"],
        "evaluations": [_evaluation(way) for way in ways(study)],
        "bricks": list(_bricks(study)),
        "left_out": [
            {"name": each.name, "ways": list(each.ways), "reason": each.reason}
            for each in left_out_models(study)
        ],
        "notes": [*notes_data(remarks(study)), *analysis["notes"]],
        "failures": common.failures_data(failures(study)),
        "published": None,
    }
    return {**data, "published": published_data(data)}


def _measured(model: ModelResult) -> MeasuredModelData:
    latency = model.measured
    return {
        "measured": latency.value if latency else None,
        "measured_interval": latency.interval if latency else None,
        "measured_samples": list(latency.samples) if latency else [],
    }


def _evaluation(way: Evaluation) -> EvaluatedWayData:
    options = way.result.cut_options
    return {
        "granularity": options.granularity,
        "split": options.strategy,
        "composer": options.composer,
        **common.totals(way.result.brickset, len(way.result.cutting.plan.timed)),
        "bricks": sum(len(cut.occurrences) for cut in way.result.brickset.models),
        **evaluation.figures_data(way),
        "speedup": cast(
            "WaySpeedupData",
            {name: evaluation.speedup_data(each) for name, each in definitions(way).items()},
        ),
        "models": [_model(each) for each in way.models],
    }


def _model(each: ModelEvaluation) -> WayModelData:
    model = each.model
    return {
        "name": each.name,
        "source": model.cut.model.source,
        "bricks": len(model.cut.occurrences),
        "unique_bricks": len(model.cut.counts),
        "estimate": each.estimate_ms,
        "interval": model.estimate.interval,
        "parallel_estimate": model.parallel.value,
        "measured": each.measured_ms,
        "normalized": each.normalized,
        "error": each.error,
        "covered": each.covered,
        "same_rounds": each.same_rounds,
    }


def _bricks(study: Study) -> Iterator[WayBrickData]:
    """Unique bricks of each way, with the latencies that estimates and speedups rest on."""
    for way in ways(study):
        options = way.result.cut_options
        compared = {s for each in way.models for s in way.result.timed_for(each.model.cut)}
        for brick in way.result.bricks:
            if brick.brick.signature in compared and brick.latency:
                yield {
                    "composer": options.composer,
                    "granularity": options.granularity,
                    "signature": brick.brick.signature,
                    "operators": " ".join(brick.brick.operators),
                    "occurrences": brick.occurrences,
                    "value": brick.latency.value,
                    "call_ms": brick.latency.overhead,
                }
