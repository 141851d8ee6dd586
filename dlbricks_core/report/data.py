"""Parts of the JSON objects that scripts read, shared by all commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, TypeVar, cast

from dlbricks_core.facts import Cache, CalibrationModel
from dlbricks_core.passes.options import input_data
from dlbricks_core.report.notes import notes_data

if TYPE_CHECKING:
    from dlbricks_core.bricks import Brick, BrickSet, CutModel
    from dlbricks_core.compose.options import CutOptions
    from dlbricks_core.estimation.model_result import Compared, ModelResult
    from dlbricks_core.estimation.results import BrickResult, RunResult
    from dlbricks_core.facts import Calibration, Failure, Quantity
    from dlbricks_core.importers import LoadOptions
    from dlbricks_core.measure.request import Request


_VARIABLES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "ATEN_"),
    *("ORT_", "MXNET_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"),
)
"""Prefixes of the environment variables that affect the speed of frameworks."""


Interval = tuple[float, float]  #: Lower and upper end of a 90% interval.


class WrittenData(TypedDict):
    """Object that a command writes."""

    schema_version: int  #: Version of the fields: 2. Fields are added freely and never renamed.


class ListedFailuresData(WrittenData):
    """Object that a command writes, with failures."""

    failures: list[FailureData]  #: Failures, with reasons. Empty: exit status 0.


class FailureData(TypedDict):
    """A failed step."""

    where: str  #: The model, the brick or the file, for people.
    reason: str  #: Reason in words.
    stage: Literal["read", "check", "measure", "compose", "write"]  #: The step that failed.


class NoteData(TypedDict):
    """A fact about figures that is good to know, or a reason to doubt them."""

    #: Name of the fact, which never changes, although the sentence may. ``plugin`` for sentences of
    #: plugins.
    code: str
    #: ``warning`` for a reason to doubt figures, ``doubtful`` if figures may be far off.
    severity: Literal["info", "warning", "doubtful"]
    #: Models, a backend or a place; empty if the note is about the object around it.
    subject: str
    #: Values in the sentence by name, in the units of their names; shares are fractions.
    values: dict[str, Any]
    text: str  #: The sentence for people, which begins with the subject.


class QuantityData(TypedDict):
    """Quantity of a result."""

    #: Name of the quantity: ``latency``, the name of a metric, or in advice ``price``,
    #: ``time-to-first-token`` and ``time-per-output-token``.
    name: str
    unit: str  #: Unit of its values, such as ``ms`` or ``MiB``.


class SystemFactsData(TypedDict):
    """Facts about a system's hardware and software."""

    cpu: str  #: Name of the processor.
    vendor: str  #: Vendor as the processor reports it.
    family: str  #: CPU family.
    model: str  #: CPU model number.
    stepping: str  #: CPU stepping.
    microarchitecture: str  #: Name by archspec, or a generic level.
    architecture: str  #: Such as x86_64.
    isa: list[str]  #: Instruction sets that matter for deep learning.
    physical_cores: int  #: Cores of the machine.
    logical_cpus: int  #: Hardware threads of the machine.
    available_cpus: int  #: Hardware threads that this process may use.
    available_cores: int  #: Physical cores of these hardware threads, within the quota.
    cpu_quota: float | None  #: CPU time that the container may use, in CPUs.
    caches: list[Cache]  #: Caches, nearest first.
    numa_nodes: int  #: Number of NUMA nodes.
    memory: int  #: Bytes; 0 if unknown.
    memory_limit: int | None  #: Bytes that the container may use.
    governors: list[str]  #: Frequency governors in use; empty if not visible.
    boost: bool | None  #: Whether turbo is on.
    max_mhz: list[int]  #: Highest frequencies that the governor may choose, in MHz.
    huge_pages: str | None  #: Mode of transparent huge pages.
    hypervisor: str | None  #: Null on a physical machine.
    os: str  #: Operating system.
    kernel: str  #: Version of Linux.
    python: str  #: Version of Python.


class SystemData(SystemFactsData):
    """System of the figures: the command's system, or a system that the user named."""

    fingerprint: str  #: Hash that is equal for systems with the same latencies.
    measured_on: NotRequired[str]  #: Fingerprint of the measured system.
    description: NotRequired[str]  #: The system in one line, for people.
    #: Name of the machine of an estimate, if the user chose one that has a name or equal machines.
    machine: NotRequired[str | None]


class BackendData(TypedDict):
    """A framework and its options."""

    name: str  #: Name of the plugin.
    version: str  #: Version of the framework.
    plugin: str  #: Version of the backend's plugin.
    settings: dict[str, str]  #: Value of every option of the backend.
    #: Environment variables that change the framework's speed: the user's and the backend's. Empty
    #: if the figures are for another system.
    environment: dict[str, str]


class TimerData(TypedDict):
    """The cost of starting a call and waiting for it."""

    #: Median in milliseconds; subtracted from each brick, included in raw samples.
    call_ms: float | None


class ReadingData(TypedDict):
    """How models were read; fields are null if another program loaded the models."""

    batch: int | None  #: Size of open batch axes; null if unknown.
    dims: dict[str, int] | None  #: Sizes of open dimensions by name.
    shapes: dict[str, list[int]] | None  #: Whole shapes of inputs by name.
    #: Constant values of inputs: one number for all elements, or one for each element; null for an
    #: optional input that is left out.
    values: dict[str, float | list[float] | None] | None
    outputs: list[str] | None  #: Outputs that were kept; empty for all outputs.
    fold_batchnorm: bool | None  #: Whether batch normalizations were folded.
    dtype: str | None  #: Element type to which models were converted; null for no conversion.
    form: str | None  #: Program whose files language models have the form of; empty for none.


class CuttingData(TypedDict):
    """How models were cut and composed."""

    granularity: int  #: Maximum number of layers in a brick.
    split: str  #: Strategy by which models were cut.
    composer: str  #: Composer that joined the latencies.
    #: Predictor of bricks that the store lacks; null: these bricks are missing.
    predictor: str | None


class ProtocolSettingsData(ReadingData):
    """How models were read and measured."""

    #: How networks were timed: ``interleaved`` or ``paper``. The name of a quantity other than
    #: latency.
    protocol: str
    protocol_identity: str  #: Text that changes whenever a change of the protocol changes samples.
    statistic: str  #: Statistic of the samples that is the figure.
    runs: int | None  #: Samples of each network; null: as many as the precision needs.
    precision: float | None  #: Requested relative half-width of intervals.
    budget_s: float | None  #: Seconds after which no round began.
    #: Threads that compute one operator; if the phases of an answer differ, the threads of the
    #: tokens.
    threads: int
    seed: int  #: Seed of weights and inputs.
    timeout_s: float  #: Maximum seconds to load a network or to run it once.


class SettingsData(ProtocolSettingsData, CuttingData):
    """How models were read, cut, measured and composed."""


class TotalsData(TypedDict):
    """Counts over all models."""

    layers: int  #: Layers of all models.
    unique_layers: int  #: Different layers among them.
    unique_bricks: int  #: Different bricks.
    timed_bricks: int  #: Timed bricks; fewer than all if some are derived from others.


class CalibrationData(TypedDict):
    """Numbers that were fitted to this system."""

    composer: str  #: Composer of the numbers.
    granularity: int  #: Maximum number of layers in a brick.
    split: str  #: Strategy by which models were cut.
    values: dict[str, float]  #: Fitted numbers by name.
    models: list[CalibrationModel]  #: Models to which the numbers were fitted.
    bricks: int  #: Number of bricks to which the numbers were fitted.
    version: str  #: Version of DLBricks that fitted the numbers.
    taken_at: str  #: Time of the fit, in ISO 8601.


class ModelHeadData(TypedDict):
    """Facts about a model and how it was cut."""

    name: str  #: Name of the model.
    source: str  #: File or collection, as the user named it.
    #: Signature of the whole model in canonical form, without names and values of weights.
    signature: str
    inputs: dict[str, str]  #: Type and shape of each input.
    layers: int  #: Layers in canonical form.
    unique_layers: int  #: Different layers among them.
    bricks: int  #: Number of bricks, with repetitions.
    unique_bricks: int  #: Different bricks.


class EstimatedData(TypedDict):
    """An estimate and a measurement, in the unit of the quantity."""

    #: Estimate in the quantity's unit. A lower bound if partial; null if no brick has a figure.
    estimate: float | None
    interval: Interval | None  #: 90% interval of the estimate, in any quiet hour.
    measured: float | None  #: Measured value of the whole model.
    measured_interval: Interval | None  #: 90% interval of the measured value.
    normalized: float | None  #: Estimate divided by measured value.
    partial: bool  #: Whether a brick has no value.


class ModelFiguresData(EstimatedData):
    """Figures of one backend for a model, in the unit of the quantity."""

    #: 90% interval of the estimate in the hour of the measurements; without measurements, the
    #: interval for any quiet hour.
    interval_this_hour: Interval | None
    #: Sum along the critical path. Null for quantities other than latency.
    parallel_estimate: float | None
    parallel_interval: Interval | None  #: 90% interval of this sum.
    measured_samples: list[float]  #: Raw samples of the whole model.
    native: float | None  #: Value in the framework's original form, if the model has one.
    missing: list[MissingBrickData]  #: Bricks without a value.
    unsupported: list[MissingBrickData]  #: Missing bricks for which the backend has no counterpart.
    notes: list[NoteData]  #: Notes for people.


class BrickHeadData(TypedDict):
    """Facts about a brick."""

    signature: str  #: Hash of the brick's work.
    layers: list[str]  #: Operators in order.
    occurrences: int  #: Number of occurrences in all models; 0 for a tile.


class BrickFiguresData(TypedDict):
    """Figures of one backend for a brick, in the unit of the quantity."""

    #: Value of the brick in the quantity's unit; a latency includes the cost of a call.
    value: float | None
    interval: Interval | None  #: 90% interval of the value.
    samples: list[float]  #: Raw samples.
    derived_from: str | None  #: Signature of the brick from which the value is derived.
    warnings: list[NoteData]  #: Doubts about the samples.
    failure: str | None  #: Reason why the brick could not be timed.


class MissingBrickData(TypedDict):
    """A brick without a figure."""

    signature: str  #: Signature of the brick.
    layers: list[str]  #: Operators of the brick.
    reason: str  #: Reason in words.


SCHEMA_VERSION = 2
RecordT = TypeVar("RecordT")


def plain(record: RecordT) -> RecordT:
    """A data class as a dictionary of its fields, for JSON; ``None`` stays ``None``."""
    return cast("RecordT", record and asdict(record))  # type: ignore[call-overload]


def settings_data(result: RunResult, load: LoadOptions | None = None) -> SettingsData:
    """Settings of a run: how models were read, cut, measured and composed."""
    request = result.request
    return {
        **reading_data(load),
        **cutting_data(result.cut_options, result.predictor),
        "protocol": request.protocol.name,
        "protocol_identity": request.setup.protocol,
        "statistic": request.protocol.statistic_name,
        "runs": request.runs,
        "precision": request.precision,
        "budget_s": request.budget_s,
        "threads": request.settings.threads,
        "seed": request.seed,
        "timeout_s": request.timeout_s,
    }


def cutting_data(cut: CutOptions, predictor: str | None) -> CuttingData:
    """How models were cut and composed."""
    return {
        "granularity": cut.granularity,
        "split": cut.strategy,
        "composer": cut.composer,
        "predictor": predictor or None,
    }


def reading_data(load: LoadOptions | None) -> ReadingData:
    """How models were read; ``None`` if another program loaded them."""
    if load is None:
        return cast("ReadingData", dict.fromkeys(ReadingData.__annotations__))
    return {
        "batch": load.batch or 1,
        "dims": dict(load.dims),
        "shapes": {name: list(shape) for name, shape in load.shapes.items()},
        "values": {name: input_data(value) for name, value in load.values.items()},
        "outputs": list(load.outputs),
        "fold_batchnorm": load.fold_batchnorm,
        "dtype": load.dtype,
        "form": load.form,
    }


def failures_data(failures: Iterable[Failure]) -> list[FailureData]:
    """Failures, as the JSON of every command has them."""
    return [{"where": each.where, "reason": each.reason, "stage": each.stage} for each in failures]


def system_data(request: Request) -> SystemData:
    """The system behind the figures: that of this process, or another requested one."""
    more = {"measured_on": request.fingerprint, "machine": request.machine or None}
    return cast("SystemData", request.target.to_dict() | more)


def environment_of(request: Request) -> dict[str, str]:
    """Environment variables of the framework that affect its speed.

    These are variables of the user and of the backend. The mapping is empty for figures of another
    system, or without an installed framework.
    """
    if request.elsewhere or request.plugin.problem:
        return {}
    users = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    return {**users, **request.backend.environment(request.settings)}


def backend_data(request: Request) -> BackendData:
    """The backend with its version, its options, and the environment that it runs in."""
    return {
        "name": request.backend.name,
        "version": request.setup.version,
        "plugin": request.setup.plugin,
        "settings": dict(request.settings.options),
        "environment": environment_of(request),
    }


def quantity_data(quantity: Quantity) -> QuantityData:
    """The quantity of figures, and its unit."""
    return {"name": quantity.name, "unit": quantity.unit}


def calibration_data(calibration: Calibration | None) -> CalibrationData | None:
    """A composer's fitted parameters and their basis; ``None`` if its defaults were used."""
    if calibration is None:
        return None
    key = calibration.key
    cut = {"composer": key.composer, "split": key.strategy, "granularity": key.granularity}
    return cast("CalibrationData", {**cut, **calibration.to_dict()})


def totals(bricks: BrickSet, timed: int) -> TotalsData:
    """Counts over all models."""
    return {"layers": bricks.layers, "unique_layers": bricks.unique_layers,
            "unique_bricks": len(bricks.bricks), "timed_bricks": timed}  # fmt: skip


def model_head(cut: CutModel) -> ModelHeadData:
    """Facts about a model and how it was cut."""
    return {
        "name": cut.model.name,
        "source": cut.model.source,
        "signature": cut.whole.signature,
        "inputs": {name: str(cut.model.tensors[name]) for name in cut.model.inputs},
        "layers": len(cut.model.layers),
        "unique_layers": len(set(cut.layer_signatures)),
        "bricks": len(cut.occurrences),
        "unique_bricks": len(cut.counts),
    }


def compared_data(compared: Compared) -> EstimatedData:
    """An estimate and a measurement."""
    estimate, measured = compared.estimate, compared.measured
    return {
        "estimate": estimate.value,
        "interval": estimate.interval,
        "measured": measured.value if measured else None,
        "measured_interval": measured.interval if measured else None,
        "normalized": compared.normalized,
        "partial": estimate.partial,
    }


def model_figures(model: ModelResult) -> ModelFiguresData:
    """Figures of one backend for a model."""
    return {
        **compared_data(model.compared),
        "interval_this_hour": model.estimate.interval_now,
        "parallel_estimate": model.parallel.value,
        "parallel_interval": model.parallel.interval,
        "measured_samples": list(model.measured.samples) if model.measured else [],
        "native": model.native.value if model.native else None,
        "missing": _reasons(model, model.missing),
        "unsupported": _reasons(model, model.unsupported),
        "notes": notes_data(model.notes),
    }


def _reasons(model: ModelResult, reasons: Mapping[str, str]) -> list[MissingBrickData]:
    return [
        {"signature": signature, "layers": list(model.cut.operators(signature)), "reason": reason}
        for signature, reason in reasons.items()
    ]


def brick_head(brick: Brick, occurrences: int) -> BrickHeadData:
    """Facts about a brick."""
    layers = list(brick.operators)
    return {"signature": brick.signature, "layers": layers, "occurrences": occurrences}


def brick_figures(result: BrickResult) -> BrickFiguresData:
    """Figures of one backend for a brick."""
    figure = result.latency
    return {
        "value": figure.value if figure else None,
        "interval": result.interval_ms,
        "samples": list(figure.samples) if figure else [],
        "derived_from": next(iter(result.derived_from), None),
        "warnings": notes_data(result.warnings),
        "failure": result.failure or None,
    }
