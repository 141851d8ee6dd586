"""Answers and curves as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dlbricks_core.figures.figure import interval
from dlbricks_core.workflows import Answer, Compared, ModelResult, Rate, RunResult, SizeCurve


def sizes_data(result: RunResult) -> dict[str, Any]:
    """Answers and curves for the JSON object of a run."""
    return {
        "answers": [_answer(each) for each in result.answers],
        "curves": [_curve(each) for each in result.curves],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.name,
        **asdict(answer.workload),
        "ttft": _time(answer.first),
        "tpot": None if answer.token is None else _time(answer.token),
        "total": _time(answer.total),
        "prompt_tokens_per_s": _rate(answer.prompt_rate),
        "generated_tokens_per_s": _rate(answer.generation_rate),
        "output_tokens_per_s": _rate(answer.output_rate),
        "prefill_model": answer.prefill.cut.model.name,
        "curve": [
            {"depth": depth, **_time(each.compared), "model": each.cut.model.name}
            for depth, each in answer.curve.items()
        ],
    }


def _time(compared: Compared) -> dict[str, Any]:
    return _compared(compared, "_ms")


def _compared(compared: Compared, unit: str = "") -> dict[str, Any]:
    """An estimate beside a measurement; names of fields end in the unit."""
    measured = compared.measured
    return {
        f"estimate{unit}": compared.estimate.value,
        f"interval{unit}": compared.estimate.interval,
        f"measured{unit}": measured.value if measured else None,
        f"measured_interval{unit}": interval(measured.replicates) if measured else None,
        "normalized": compared.normalized,
        "partial": compared.estimate.partial,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"value": rate.value, "interval": rate.interval}


def _curve(curve: SizeCurve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "points": [{"sizes": dict(p.sizes), **_point(p.result)} for p in curve.points],
    }


def _point(result: ModelResult) -> dict[str, Any]:
    return {**_compared(result.compared), "model": result.cut.model.name}
