"""Models at several sizes in JSON, which the distribution of several sizes writes."""

from __future__ import annotations

from typing import TypedDict

from dlbricks_core.report.data import EstimatedData, Interval, QuantityData


class AnswerData(TypedDict):
    """How fast a language model does a workload. Tokenizer and sampling are left out."""

    name: str  #: Name of the model.
    engine: str  #: Program for language models whose figures these are, and what of it they lack.
    quantity: QuantityData  #: Quantity of its times, and their unit.
    prompt: int  #: Tokens of the prompt.
    generate: int  #: Output tokens.
    depth: int  #: Tokens that the cache holds before the prompt.
    batch: int  #: Requests that are computed together.
    ttft: AnswerTimeData  #: Time to the first token.
    #: Time per output token: mean over those after the first. Null where there is only one.
    tpot: AnswerTimeData | None
    total: AnswerTimeData  #: Time from the prompt to the last token.
    #: Tokens of all prompts of the batch over the time to the first token.
    prompt_tokens_per_s: RateData
    generated_tokens_per_s: RateData  #: Size of the batch over the time per output token.
    output_tokens_per_s: RateData  #: All output tokens of the batch over the total time.
    prefill_model: str  #: Name of the entry of models that the time to the first token is from.
    #: Time of one output token at a few depths, from which the time per output token follows.
    curve: list[TokenTimeData]
    tokens: list[EachTokenData]  #: Time of each output token after the first, from the curve.
    memory: MemoryData | None  #: Memory of the model. Null where sizes are known only once it runs.


class EachTokenData(TypedDict):
    """Time of one output token, on the straight lines between the depths of the curve."""

    depth: int  #: Tokens that the cache holds before it.
    estimate: float | None  #: The time; null if it is unknown.
    interval: Interval | None  #: 90% interval.


class MemoryData(TypedDict):
    """Memory of a model at all sizes of an answer or a curve."""

    weights_bytes: int  #: Bytes of the weights, without further copies that the framework keeps.
    #: Bytes of the keys and values of 1,000 tokens of one text.
    cache_bytes_per_1000_tokens: float
    #: Most bytes of inputs and results at a time, without the cache.
    activations_bytes: int
    #: Memory that 95 of 100 processes do not exceed at any of the sizes, in the unit of the
    #: quantity. Null unless the quantity is a peak, such as peak-memory.
    reserve: float | None


class AnswerTimeData(EstimatedData):
    """A time of an answer."""


class TokenTimeData(EstimatedData):
    """Time of one output token."""

    depth: int  #: Tokens that the cache holds before it.
    model: str  #: Name of the entry of models that it is from.


class RateData(TypedDict):
    """Tokens per second, by the estimate."""

    value: float | None  #: The rate. Null if the time is not known, or a lower bound.
    interval: Interval | None  #: 90% interval.


class CurveData(TypedDict):
    """A model over sizes of dimensions that it leaves open."""

    name: str  #: Name of the model.
    quantity: QuantityData  #: Quantity of the points, and its unit.
    points: list[CurvePointData]  #: One for each combination of sizes.
    memory: MemoryData | None  #: Memory of the model. Null where sizes are known only once it runs.


class CurvePointData(EstimatedData):
    """A model at one combination of sizes."""

    sizes: dict[str, int]  #: Sizes by the names of dimensions; batch stands for all batch axes.
    model: str  #: Name of the entry of models that it is from.
