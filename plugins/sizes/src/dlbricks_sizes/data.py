"""Models at several sizes as plain data: speed of language models, and curves over sizes."""

from __future__ import annotations

from dlbricks_core.estimation.model_result import Compared
from dlbricks_core.facts import Quantity
from dlbricks_core.report.data import EstimatedData, quantity_data
from dlbricks_core.report.sizes_data import AnswerData, CurveData, MemoryData, RateData
from dlbricks_sizes.answers import Answer, MemoryNeed, Rate, SizeCurve


def answer_data(answer: Answer, quantity: Quantity, engine: str) -> AnswerData:
    """An answer of a language model by an engine, with times in the unit of a quantity."""
    workload = answer.workload
    return {
        "name": answer.name,
        "engine": engine,
        "quantity": quantity_data(quantity),
        "prompt": workload.prompt,
        "generate": workload.generate,
        "depth": workload.depth,
        "batch": workload.batch,
        "ttft": _compared(answer.first),
        "tpot": None if answer.token is None else _compared(answer.token),
        "total": _compared(answer.total),
        "prompt_tokens_per_s": _rate_data(answer.prompt_rate),
        "generated_tokens_per_s": _rate_data(answer.generation_rate),
        "output_tokens_per_s": _rate_data(answer.output_rate),
        "prefill_model": answer.prefill.cut.model.name,
        "curve": [
            {"depth": depth, **_compared(each.compared), "model": each.cut.model.name}
            for depth, each in answer.curve.items()
        ],
        "tokens": [
            {"depth": depth, "estimate": each.value, "interval": each.interval}
            for depth, each in answer.tokens.items()
        ],
        "memory": _memory_data(MemoryNeed.of(answer.results)),
    }


def curve_data(curve: SizeCurve, quantity: Quantity) -> CurveData:
    """A model over sizes, in the unit of a quantity."""
    return {
        "name": curve.name,
        "quantity": quantity_data(quantity),
        "points": [
            {
                "sizes": dict(each.sizes),
                **_compared(each.result.compared),
                "model": each.result.cut.model.name,
            }
            for each in curve.points
        ],
        "memory": _memory_data(MemoryNeed.of(curve.results, quantity)),
    }


def _memory_data(memory: MemoryNeed | None) -> MemoryData | None:
    if memory is None:
        return None
    return {
        "weights_bytes": memory.weights_bytes,
        "cache_bytes_per_1000_tokens": memory.cache_bytes,
        "activations_bytes": memory.live_bytes,
        "reserve": memory.reserve,
    }


def _compared(compared: Compared) -> EstimatedData:
    measured = compared.measured
    return {
        "estimate": compared.estimate.value,
        "interval": compared.estimate.interval,
        "measured": measured.value if measured else None,
        "measured_interval": measured.interval if measured else None,
        "normalized": compared.normalized,
        "partial": compared.estimate.partial,
    }


def _rate_data(rate: Rate) -> RateData:
    return {"value": rate.value, "interval": rate.interval}
