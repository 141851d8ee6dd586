"""A layer with the ranges of what it reads, and the form of the rules for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dlbricks_core.ir import Array, Layer, TensorSpec
from dlbricks_core.values.ranges.interval import Range


@dataclass(frozen=True)
class Step:
    """A layer and what is known of its inputs, by position.

    Attributes:
        layer: The layer.
        inputs: Their specifications; ``None`` where one is left out.
        outputs: Specifications of the results.
        known: Their values, where these are certain.
        ranges: What they hold.
        free: Whether values that are still to be drawn decide what they hold.
        fed: Whether inputs of the model do, not weights alone.
        detailed: Whether they are small enough for ranges of single elements.
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


def _nothing(step: Step, wanted: Sequence[Range]) -> Mapping[int, Range]:
    return {}


@dataclass(frozen=True)
class Rule:
    """How ranges pass through layers of one operator.

    Attributes:
        image: The range of each result.
        asked: What each input must hold, by position, for the results to hold what is wanted of
            them; an input that is not named need not change.
        carries: Whether results are inputs that were moved or shifted: indices stay indices, and
            are spread over all that is allowed.
    """

    image: Callable[[Step], Sequence[Range]]
    asked: Callable[[Step, Sequence[Range]], Mapping[int, Range]] = _nothing
    carries: Callable[[Step], bool] = lambda step: False

    @property
    def passes(self) -> bool:
        """Whether what is wanted of results can be had from inputs."""
        return self.asked is not _nothing
