"""Models at several sizes in JSON: speed of language models, and curves over sizes."""

from __future__ import annotations

from typing import TypedDict

from dlbricks_core.estimation.answers import Answer, MemoryNeed, Rate, SizeCurve
from dlbricks_core.facts import Quantity
from dlbricks_core.report.data import (
    EstimatedData,
    Interval,
    QuantityData,
    compared_data,
    plain,
    quantity_data,
)


class AnswerData(TypedDict):
    """How fast a language model does a workload. Tokenizer and sampling are left out."""

    name: str  #: Name of the model.
    engine: str  #: Program for language models whose figures these are, and what of it they lack.
    quantity: QuantityData  #: Quantity of its times, and their unit.
    prompt: int  #: Tokens of the prompt.
    generate: int  #: Output tokens.
    depth: int  #: Tokens that the cache holds before the prompt.
    batch: int  #: Requests that are computed together.
    ttft: EstimatedData  #: Time to the first token.
    #: Time per output token: mean over those after the first. Null where there is only one.
    tpot: EstimatedData | None
    total: EstimatedData  #: Time from the prompt to the last token.
    #: Tokens of all prompts of the batch over the time to the first token.
    prompt_tokens_per_s: Rate
    generated_tokens_per_s: Rate  #: Size of the batch over the time per output token.
    output_tokens_per_s: Rate  #: All output tokens of the batch over the total time.
    prefill_model: str  #: Name of the entry of models that the time to the first token is from.
    #: Time of one output token at a few depths, from which the time per output token follows.
    curve: list[TokenTimeData]
    tokens: list[EachTokenData]  #: Time of each output token after the first, from the curve.
    memory: MemoryNeed | None  #: Memory of the model. Null where sizes are known only once it runs.


class EachTokenData(TypedDict):
    """Time of one output token, on the straight lines between the depths of the curve."""

    depth: int  #: Tokens that the cache holds before it.
    estimate: float | None  #: The time; null if it is unknown.
    interval: Interval | None  #: 90% interval.


class TokenTimeData(EstimatedData):
    """Time of one output token."""

    depth: int  #: Tokens that the cache holds before it.
    model: str  #: Name of the entry of models that it is from.


class CurveData(TypedDict):
    """A model over sizes of dimensions that it leaves open."""

    name: str  #: Name of the model.
    quantity: QuantityData  #: Quantity of the points, and its unit.
    points: list[CurvePointData]  #: One for each combination of sizes.
    memory: MemoryNeed | None  #: Memory of the model. Null where sizes are known only once it runs.


class CurvePointData(EstimatedData):
    """A model at one combination of sizes."""

    sizes: dict[str, int]  #: Sizes by the names of dimensions; batch stands for all batch axes.
    model: str  #: Name of the entry of models that it is from.


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
        "prompt_tokens_per_s": plain(answer.prompt_rate),
        "generated_tokens_per_s": plain(answer.generation_rate),
        "output_tokens_per_s": plain(answer.output_rate),
        "prefill_model": answer.prefill.cut.model.name,
        "curve": [
            {"depth": depth, **compared_data(each.compared), "model": each.cut.model.name}
            for depth, each in answer.curve.items()
        ],
        "tokens": [
            {"depth": depth, "estimate": each.value, "interval": each.interval}
            for depth, each in answer.tokens.items()
        ],
        "memory": plain(MemoryNeed.of(answer.results)),
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
        "memory": plain(MemoryNeed.of(curve.results, quantity)),
    }
