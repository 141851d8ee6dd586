"""Parts of the JSON objects that scripts read, version 1, shared by all commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dlbricks_core import figures, workflows
from dlbricks_core.facts import LATENCY
from dlbricks_core.version import __version__

if TYPE_CHECKING:
    from dlbricks_core.bricks import Brick, BrickSet, CutModel
    from dlbricks_core.facts import Calibration, Failure, Quantity
    from dlbricks_core.workflows import (
        BrickResult,
        Invocation,
        LoadOptions,
        ModelResult,
        Request,
        RunResult,
    )

SCHEMA_VERSION = 1


def settings_data(result: RunResult, load: LoadOptions | None = None) -> dict[str, Any]:
    """Settings of a run: how models were read, cut, measured and composed.

    Fields about reading are null if ``load`` is ``None``: another program loaded the models.
    """
    request, cut = result.request, result.cut_options
    return {
        "granularity": cut.granularity,
        "split": cut.strategy,
        "composer": cut.composer,
        "predictor": result.predictor or None,
        "protocol": request.protocol.name,
        "protocol_identity": request.setup.protocol,
        "statistic": request.protocol.statistic_name,
        "runs": request.runs,
        "precision": request.precision,
        "budget_s": request.budget_s,
        "threads": request.settings.threads,
        "batch": load and (load.batch or 1),
        "dims": load and dict(load.dims),
        "shapes": load and {name: list(shape) for name, shape in load.shapes.items()},
        "values": load and dict(load.values),
        "fold_batchnorm": load and load.fold_batchnorm,
        "dtype": load and load.dtype,
        "seed": request.seed,
        "timeout_s": request.timeout_s,
    }


def failures_data(failures: Iterable[Failure]) -> dict[str, Any]:
    """Failures, under the key that the JSON of every command has."""
    return {
        "failures": [
            {"where": each.where, "reason": each.reason, "stage": each.stage} for each in failures
        ]
    }


def system_data(request: Request) -> dict[str, Any]:
    """The system behind the figures: that of this process, or another requested one."""
    return {
        **request.target.to_dict(),
        "measured_on": request.fingerprint,
        "machine": request.machine or None,
    }


def backend_data(request: Request) -> dict[str, Any]:
    """The backend with its version, its options, and the environment that it runs in."""
    return {
        "name": request.backend.name,
        "version": request.setup.version,
        "plugin": request.setup.plugin,
        "settings": dict(request.settings.options),
        "environment": workflows.environment_of(request),
    }


def quantity_data(quantity: Quantity) -> dict[str, str]:
    """The quantity of figures, and its unit."""
    return {"name": quantity.name, "unit": quantity.unit}


_MS = "_ms"

_IN_UNIT = {
    "estimate_ms": "estimate",
    "interval_ms": "interval",
    "measured_ms": "measured",
    "measured_interval_ms": "measured_interval",
    "latency_ms": "value",
    "parts_ms": "composed",
    "parts_interval_ms": "composed_interval",
    "net_ms": "net",
    "net_interval_ms": "net_interval",
    "difference_ms": "difference",
    "ideal_ms": "ideal",
    "ideal_interval_ms": "ideal_interval",
    "totals_ms": "totals",
}
"""Fields of latencies, and the fields of the same values in the unit of any quantity."""


def latencies_data(found: dict[str, Any], quantity: Quantity) -> dict[str, Any]:
    """The fields of a result; fields in ``_ms`` are empty unless it is a latency."""
    if quantity == LATENCY:
        return found
    latencies = {name: value for name, value in found.items() if name.endswith(_MS)}
    empty: dict[str, Any] = {
        name: type(value)() if isinstance(value, list | dict) else None
        for name, value in latencies.items()
    }
    return {**found, **empty}


def in_unit_name(name: str) -> str | None:
    """Name of a field in the unit of any quantity; ``None`` if it exists only for latency."""
    return _IN_UNIT.get(name) if name.endswith(_MS) else name


def in_unit(found: dict[str, Any], quantity: Quantity) -> dict[str, Any]:
    """The fields of a result, with fields of latencies repeated in the quantity's unit.

    Fields in ``_ms`` are empty unless the quantity is latency.
    """
    told = {_IN_UNIT[name]: value for name, value in found.items() if name in _IN_UNIT}
    return {**latencies_data(found, quantity), **told}


def invocation_data(invocation: Invocation | None, quantity: Quantity) -> dict[str, Any] | None:
    """The user's request and its time; ``None`` if unknown."""
    if invocation is None:
        return None
    return {
        "command": invocation.command,
        "end_to_end": invocation.end_to_end,
        "cut_chosen_by": "store" if invocation.cut_by_store else "user",
        "quantity": quantity_data(quantity),
        "version": __version__,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def facts_data(invocation: Invocation | None, name: str) -> dict[str, Any] | None:
    """Facts about a model's file; ``None`` if unknown."""
    if invocation is None:
        return None
    facts = invocation.facts[name]
    found = {"sha256": facts.sha256, "bytes": facts.size, **asdict(facts.notes)}
    return {key: value or None for key, value in found.items()}


def calibration_data(calibration: Calibration | None) -> dict[str, Any] | None:
    """A composer's fitted parameters and their basis; ``None`` if its defaults were used."""
    if calibration is None:
        return None
    key = calibration.key
    cut = {"composer": key.composer, "split": key.strategy, "granularity": key.granularity}
    return {**cut, **calibration.to_dict()}


def totals(bricks: BrickSet, timed: int) -> dict[str, int]:
    """Counts over all models.

    Args:
        bricks: The models and their bricks.
        timed: Number of networks to time for the bricks.
    """
    return {
        "layers": bricks.layers,
        "unique_layers": bricks.unique_layers,
        "unique_bricks": len(bricks.bricks),
        "timed_bricks": timed,
    }


def model_head(cut: CutModel) -> dict[str, Any]:
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


def model_result(model: ModelResult) -> dict[str, Any]:
    """Figures of one backend for a model."""
    return {
        "estimate_ms": model.estimate.value,
        "interval_ms": model.estimate.interval,
        "parallel_estimate_ms": model.parallel.value,
        "parallel_interval_ms": model.parallel.interval,
        "measured_ms": model.measured.value if model.measured else None,
        "measured_interval_ms": (
            figures.interval(model.measured.replicates, model.measured.value)
            if model.measured
            else None
        ),
        "measured_samples_ms": list(model.measured.samples) if model.measured else [],
        "normalized": model.normalized,
        "native_ms": model.native.value if model.native else None,
        "partial": model.estimate.partial,
        "missing": _reasons(model, model.missing),
        "unsupported": _reasons(model, model.unsupported),
        "notes": list(model.notes),
    }


def _reasons(model: ModelResult, reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"signature": signature, "layers": model.cut.operators(signature), "reason": reason}
        for signature, reason in reasons.items()
    ]


def brick_head(brick: Brick, occurrences: int) -> dict[str, Any]:
    """Facts about a brick."""
    return {
        "signature": brick.signature,
        "layers": list(brick.operators),
        "occurrences": occurrences,
    }


def brick_result(result: BrickResult) -> dict[str, Any]:
    """Figures of one backend for a brick."""
    latency = result.latency
    return {
        "latency_ms": latency.value if latency else None,
        "interval_ms": result.interval_ms,
        "samples_ms": list(latency.samples) if latency else [],
        "like": next(iter(result.derived_from), None),
        "warnings": list(result.warnings),
        "failure": result.failure or None,
    }
