"""A layer with the ranges of its inputs, and the form of rules for operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dlbricks_core.ir import Array, Layer, TensorSpec
from dlbricks_core.operators.ranges.interval import Range


@dataclass(frozen=True)
class RangeStep:
    """A layer, with the knowledge about its inputs by position.

    Attributes:
        layer: The layer.
        inputs: Specifications of the inputs; ``None`` where one is left out.
        outputs: Specifications of the results.
        known: Values of the inputs, where they are known.
        ranges: Ranges of the inputs.
        free: Whether each input depends on values that are still to be drawn.
        fed: Whether each input depends on inputs of the model, not on weights alone.
        detailed: Whether the tensors are small enough for ranges of single elements.
    """

    layer: Layer
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    known: tuple[Array | None, ...]
    ranges: tuple[Range, ...]
    free: tuple[bool, ...]
    fed: tuple[bool, ...]
    detailed: bool

    def sizes(self, position: int) -> tuple[int, ...]:
        """Shape of an input."""
        spec = self.inputs[position]
        assert spec is not None
        return spec.sizes

    def out_sizes(self, position: int = 0) -> tuple[int, ...]:
        """Shape of a result."""
        spec = self.outputs[position]
        assert spec is not None
        return spec.sizes

    @property
    def dtype(self) -> str:
        """Element type of the first result."""
        spec = self.outputs[0]
        return "" if spec is None else spec.dtype

    def integer(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        value = self.layer.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        value = self.layer.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.layer.attributes.get(name, default)
        assert isinstance(value, (int, float))
        return value


def _nothing(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    return {}


@dataclass(frozen=True)
class Rule:
    """Rule for the ranges of one operator.

    Attributes:
        image: Range of each result, from the ranges of the inputs.
        asked: Range that each input must have, by position, so that results have the wanted
            range. An input that is not named need not change.
        carries: Whether results are moved or shifted inputs. Indices then stay indices, and are
            spread over the whole valid range.
    """

    image: Callable[[RangeStep], Sequence[Range]]
    asked: Callable[[RangeStep, Sequence[Range]], Mapping[int, Range]] = _nothing
    carries: Callable[[RangeStep], bool] = lambda step: False

    @property
    def passes(self) -> bool:
        """Whether requested ranges of results can become requests on inputs."""
        return self.asked is not _nothing


def within(low: float, high: float) -> Rule:
    """Rule of an operator whose results are within bounds for all inputs."""
    return Rule(lambda step: [Range.of(low, high)] * len(step.outputs))
