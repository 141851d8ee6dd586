"""Models at several sizes as plain data: speed of language models, and curves over sizes."""

from __future__ import annotations

from dlbricks_core.commands.estimate.sizes_data import AnswerData, CurveData, MemoryData, RateData
from dlbricks_core.facts import Quantity
from dlbricks_core.report.data import compared_data, quantity_data
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
        "ttft": compared_data(answer.first),
        "tpot": None if answer.token is None else compared_data(answer.token),
        "total": compared_data(answer.total),
        "prompt_tokens_per_s": _rate_data(answer.prompt_rate),
        "generated_tokens_per_s": _rate_data(answer.generation_rate),
        "output_tokens_per_s": _rate_data(answer.output_rate),
        "prefill_model": answer.prefill.cut.model.name,
        "curve": [
            {"depth": depth, **compared_data(each.compared), "model": each.cut.model.name}
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
                **compared_data(each.result.compared),
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
        "cache_bytes_per_1000_tokens": memory.cache_bytes_per_1000_tokens,
        "activations_bytes": memory.activations_bytes,
        "reserve": memory.reserve,
    }


def _rate_data(rate: Rate) -> RateData:
    return {"value": rate.value, "interval": rate.interval}
