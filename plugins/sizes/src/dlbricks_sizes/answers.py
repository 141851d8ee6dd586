"""Results for models at several sizes: speed of text generation, and size curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import Compared, ModelResult
from dlbricks_core.facts import LATENCY, Composition, Quantity
from dlbricks_sizes.interpolation import weights_at

FIRST_TOKEN = Quantity(
    "time-to-first-token", "ms", Composition.SUM, "time from the prompt to its first output token"
)
OUTPUT_TOKEN = Quantity(
    "time-per-output-token", "ms", Composition.SUM, "mean time of an output token after the first"
)

SHORT: Mapping[Quantity, str] = {FIRST_TOKEN: "TTFT", OUTPUT_TOKEN: "TPOT"}
"""Abbreviations of an answer's quantities other than its total time."""


def quantities_of(workload: Workload) -> list[Quantity]:
    """Quantities of an answer other than its total time, which is its latency."""
    return [FIRST_TOKEN, OUTPUT_TOKEN] if workload.depths else [FIRST_TOKEN]


@dataclass(frozen=True)
class Rate:
    """Tokens per second.

    Attributes:
        value: The rate; ``None`` if the time is unknown or a lower bound.
        interval: 90% interval; ``None`` if the interval of the time is unknown or reaches 0.
    """

    value: float | None = None
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, tokens: int, time: Estimate) -> Self:
        """Rate of a number of tokens in an estimated time in milliseconds."""
        if not time.value or time.partial:
            return cls()
        per_ms = 1e3 * tokens
        if time.interval is None or time.interval[0] <= 0:
            return cls(per_ms / time.value)
        low, high = time.interval
        return cls(per_ms / time.value, (per_ms / high, per_ms / low))


@dataclass(frozen=True)
class MemoryNeed:
    """Memory of a model at all sizes of an answer or a curve.

    Attributes:
        weights_bytes: Bytes of the weights, without further copies that the framework keeps.
        cache_bytes_per_1000_tokens: Bytes of the keys and values of 1,000 tokens of one text; 0
            without a growing cache.
        activations_bytes: Maximum bytes of inputs and results at a time, without the cache.
        reserve: Memory that 95 of 100 processes do not exceed at any of the sizes, in the unit of
            the quantity; ``None`` unless the quantity is a peak, such as peak-memory.
    """

    weights_bytes: int
    cache_bytes_per_1000_tokens: float
    activations_bytes: int
    reserve: float | None = None

    @classmethod
    def of(cls, results: Sequence[ModelResult], quantity: Quantity = LATENCY) -> Self | None:
        """Memory of the model of these results; ``None`` if sizes are unknown before it runs."""
        found = [each.memory for each in results if each.memory is not None]
        if not found:
            return None
        ends = [each.estimate.interval for each in results]
        # The upper end of a 90% interval is the 95% quantile.
        highs = [each[1] for each in ends if each is not None]
        is_known = quantity.composition is Composition.PEAK and len(highs) == len(ends)
        return cls(
            max(each.weights_bytes for each in found),
            1000 * max(each.token_bytes for each in found),
            max(each.live_bytes for each in found),
            max(highs) if is_known else None,
        )


@dataclass(frozen=True)
class Answer:
    """Speed of a language model in a workload.

    Attributes:
        name: Name of the model.
        workload: The workload.
        first: Time to the first token in milliseconds (TTFT).
        token: Mean time per output token after the first, in milliseconds (TPOT); ``None`` for a
            single output token.
        total: Time from the prompt to the last token in milliseconds.
        prefill: Result for the model on the prompt.
        curve: Results for the model on one token, by the number of tokens in the cache.
    """

    name: str
    workload: Workload
    first: Compared
    token: Compared | None
    total: Compared
    prefill: ModelResult
    curve: Mapping[int, ModelResult]

    @property
    def results(self) -> list[ModelResult]:
        """Results behind the answer, without duplicates."""
        return [self.prefill, *self.curve.values()]

    @property
    def tokens(self) -> Mapping[int, Estimate]:
        """Time of each output token after the first, by the number of tokens in the cache."""
        depths, known = self.workload.depths, list(self.curve.values())
        if not known:
            return {}
        weights = weights_at(depths, list(self.curve))
        return {
            depth: Estimate.weighted(
                [(float(w), each.estimate) for w, each in zip(row, known, strict=True) if w]
            )
            for depth, row in zip(depths, weights, strict=True)
        }

    @property
    def prompt_rate(self) -> Rate:
        """Prompt tokens processed per second, over the whole batch."""
        return Rate.of(self.workload.batch * self.workload.prompt, self.first.estimate)

    @property
    def generation_rate(self) -> Rate:
        """Output tokens per second during generation, over the whole batch."""
        return Rate.of(self.workload.batch, self.token.estimate) if self.token else Rate()

    @property
    def output_rate(self) -> Rate:
        """Output tokens per second over the total time, over the whole batch."""
        return Rate.of(self.workload.batch * self.workload.generate, self.total.estimate)


@dataclass(frozen=True)
class SizePoint:
    """A model at one combination of sizes.

    Attributes:
        sizes: Sizes by the names of the axes.
        result: Result of the model at these sizes.
    """

    sizes: Mapping[str, int]
    result: ModelResult


@dataclass(frozen=True)
class SizeCurve:
    """A model over all sizes of a sweep.

    Attributes:
        name: Name of the model.
        points: Points in the order of the grid; the last axis varies fastest.
    """

    name: str
    points: Sequence[SizePoint]

    @property
    def results(self) -> list[ModelResult]:
        """Results at all points."""
        return [point.result for point in self.points]
