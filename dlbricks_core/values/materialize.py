"""Seeded values for weights and inputs, with which a brick can run.

Ordinary values do not change the work. Others do: denormal numbers slow kernels tenfold, NaN and
infinity take other paths, and an index out of range crashes. So floats are drawn with a variance
that keeps activations near unit scale through many layers. Where layers demand more (indices in
range, arguments in a domain), :mod:`dlbricks_core.values.ranges` finds the valid ranges.
"""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import Array, CanonicalModel, Layer, Network, TensorSpec, numpy_dtype
from dlbricks_core.ir.tensors import aligned_empty
from dlbricks_core.operators.operator import of_variance
from dlbricks_core.operators.ranges.interval import EVERYTHING, Range, is_whole
from dlbricks_core.operators.table import operator, standing_for
from dlbricks_core.values.ranges import index_range, valid_ranges

# Power of activations: their expected mean square, propagated through a model.


def activation_powers(model: CanonicalModel) -> dict[str, float]:
    """Rough mean square of every tensor when inputs and weights are near unit scale.

    Weights are drawn so that the results of weighted sums have power 1 for all inputs. Magnitudes
    then grow with the additions between weighted layers, not with the depth of the network.
    """
    powers: dict[str, float] = {}
    for name, value in model.constants.items():
        if value.dtype.kind == "f" and value.size:
            finite = value[np.isfinite(value)]
            powers[name] = float(np.mean(np.square(finite, dtype=np.float64))) if finite.size else 1
    for layer in model.layers:
        read = [powers.get(name, 1.0) or 1.0 for name in layer.inputs if name]
        power = operator(layer.qualified_op).power(layer, read, model)
        for name in layer.outputs:
            # Beyond these bounds, rounding dominates.
            powers[name] = min(max(power, 1e-6), 1e12)
    return powers


# Scales of quantized biases, which follow from other scales.


def bias_scales(model: CanonicalModel) -> Mapping[str, tuple[str, str]]:
    """Scales of biases by name, each with the scales of what is multiplied.

    A bias is added to sums of products of codes, so its scale is the product of theirs. ONNX
    Runtime computes with codes only if it is.
    """
    found: dict[str, tuple[str, str]] = {}
    for layer in model.layers:
        if len(layer.inputs) > 2 and not layer.domain and operator(layer.op).input(2).bias:
            scales = [_scale(model, name) for name in layer.inputs[:3]]
            one, other, bias = scales
            if all(scales) and bias in model.weights and _fits(model, *scales):
                found[bias] = one, other
    # A scale that serves several tensors follows from no other.
    return {bias: pair for bias, pair in found.items() if found.keys().isdisjoint(pair)}


def _scale(model: CanonicalModel, name: str) -> str:
    """Name of the scale with which a tensor is made of codes; empty for another tensor."""
    made: Layer | None = model.layers[model.producers[name]] if name in model.producers else None
    return made.inputs[1] if made is not None and made.op == "DequantizeLinear" else ""


def _fits(model: CanonicalModel, one: str, other: str, bias: str) -> bool:
    shapes = [model.tensors[name].sizes for name in (one, other)]
    try:
        return np.broadcast_shapes(*shapes) == model.tensors[bias].sizes
    except ValueError:
        return False


def scale_of(bias: Array | None, one: Array, other: Array) -> Array:
    """Scale of a bias: the product of two scales, or a known value.

    Args:
        bias: Known scale of the bias, which may be rounded; ``None`` if it is not known.
        one: Scale of the data.
        other: Scale of the weight.
    """
    product = np.asarray(one * other, dtype=one.dtype)
    if bias is not None and not np.allclose(bias, product, rtol=_ROUNDED, atol=0):
        return bias
    return product


_ROUNDED = 0.2
"""Relative difference up to which a scale is a product of rounded ones."""


def _place(values: Array, interval: Range) -> None:
    """Maps values between 0 and 1 to an interval, in place: one for all, or one for each."""
    low, high = interval.low, interval.high
    ends = (float(low), float(high)) if interval.uniform else (low, high)
    values *= ends[1] - ends[0]
    values += ends[0]


_BETWEEN_MAPS = 0.99
"""Share of an activation's interval that differs between feature maps, not within one."""

_UNIT = Range.of(*of_variance(1.0))
_SMALL = Range.of(-0.1, 0.1)
_NEAR_ONE = Range.of(0.9, 1.1)

_FLOAT32 = np.dtype(np.float32)
_DRAWN = 1_048_573
"""Maximum numbers drawn for one tensor; then they repeat. As it is a prime, no two rows of a matrix
are alike."""

_FEW_INDICES = 65_536
"""Maximum elements of a weight of indices that is drawn before all other tensors."""


def _factor(spec: TensorSpec) -> Range:
    """Values of a weight that multiplies: near one for a scale, small for a whole matrix.

    A matrix has both signs, as in a sum of products.
    """
    return _SMALL if sum(size > 1 for size in spec.sizes) > 1 else _NEAR_ONE


def materialize(
    model: CanonicalModel, seed: int = 0, without: Collection[str] = (), *, noise: bool = False
) -> Network:
    """Draws values for all weights and inputs; the same arguments give the same values.

    Args:
        model: Model in canonical form, without opaque layers.
        seed: Seed of the random generator.
        without: Names of weights that need no values.
        noise: Whether inputs are noise, as a user's script feeds them, rather than feature maps, as
            the layer before a brick computes them.

    Raises:
        ModelError: If a layer is opaque or a tensor's type has no values to draw.
    """
    for layer in model.layers:
        if layer.opaque:
            raise ModelError(f"{layer.op} {layer.name!r} cannot run alone: {layer.opaque}")
    draw = _Drawer(model, seed, noise)
    return Network(
        model=model,
        weights={name: draw(name) for name in sorted(model.weights) if name not in without},
        inputs={name: draw(name) for name in model.inputs},
    )


class _Drawer:
    """Draws the values of one model's tensors, each from a generator of its own."""

    def __init__(self, model: CanonicalModel, seed: int, noise: bool) -> None:
        self._model = model
        self._seed = seed
        self._noise = noise
        self._powers = activation_powers(model)
        self._scales = bias_scales(model)
        # The picked elements decide where values must be valid.
        self._picked = {
            name: self._index(name)
            for name in sorted(model.weights - model.constants.keys())
            if self._is_index(name)
        }
        self._ranges = valid_ranges(model, self._default, {**self._picked, **model.constants})

    def __call__(self, name: str) -> Array:
        model = self._model
        spec = model.tensors[name]
        if name in self._scales:
            one, other = self._scales[name]
            return scale_of(model.constants.get(name), self(one), self(other))
        if name in model.constants:
            return model.constants[name]
        if name in self._picked:
            return self._picked[name]
        rng = self._generator(name, self._seed)
        dtype = numpy_dtype(spec.dtype)
        if spec.dtype == "string":
            return np.full(spec.sizes, "", dtype)  # nothing that is timed reads it
        if spec.dtype == "bool" and name not in self._ranges:
            return _mask(spec.sizes)
        if is_whole(spec.dtype):
            valid = self._ranges.get(name) or self._default(name)
            if valid.uniform and spec.elements > _DRAWN:
                return _repeated(_whole_numbers(valid, (_DRAWN,), rng).astype(dtype), spec.sizes)
            return _whole_numbers(valid, spec.sizes, rng).astype(dtype)
        if spec.dtype.startswith("complex"):
            parts = [_floats(_UNIT, spec.sizes, rng) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1], dtype=dtype)
        if name in self._ranges:
            return self._within(self._ranges[name], name, rng)
        interval = self._interval(name, spec)
        if name in model.weights:
            return _floats(interval, spec.sizes, rng, dtype)
        values = self._activations(interval, name, rng)
        if self._is_rectified(name):
            np.maximum(values, 0, out=values)
        return _stored(values, dtype)

    def _generator(self, name: str, seed: int) -> np.random.Generator:
        """Generator of one tensor, so that values do not depend on which others are drawn."""
        return np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode())]))

    def _activations(self, interval: Range, name: str, rng: np.random.Generator) -> Array:
        sizes = self._model.tensors[name].sizes
        if self._noise or len(sizes) < 4:
            return _floats(interval, sizes, rng)
        return _feature_maps(interval, sizes, self._channels(name), rng)

    def _is_rectified(self, name: str) -> bool:
        return any(standing_for(layer).input(at).rectified for layer, at in self._uses(name))

    def _channels(self, name: str) -> int:
        return -1 if any(standing_for(each).channels_last for each, _ in self._uses(name)) else 1

    def _within(self, valid: Range, name: str, rng: np.random.Generator) -> Array:
        """Floats within a range that a layer demands."""
        spec = self._model.tensors[name]
        dtype = numpy_dtype(spec.dtype)
        if name in self._model.weights:
            values = _floats(valid, spec.sizes, rng)
        else:
            values = self._activations(valid, name, rng)
        # Rounding may lead out of the range.
        low, high = (end.astype(dtype) for end in (valid.low, valid.high))
        return np.clip(_stored(values, dtype), low, high)

    def _interval(self, name: str, spec: TensorSpec) -> Range:
        for layer, position in self._uses(name):
            if layer.op == "Mul" and name in self._model.weights:
                return _factor(spec)
            facts = standing_for(layer).input(position)
            # Codes may be of a type of floats with eight bits.
            rule = facts.drawn or facts.codes
            if rule is not None and not self._is_scaled_input(name, layer):
                low, high = rule(layer, spec)
                if name in self._model.weights and facts.compensates:
                    factor = 1 / math.sqrt(self._powers.get(layer.inputs[0], 1.0))
                    low, high = low * factor, high * factor
                return Range.of(low, high)
        return _SMALL if name in self._model.weights else _UNIT

    def _is_scaled_input(self, name: str, layer: Layer) -> bool:
        """Whether the layer multiplies an input of the model by a known number.

        An image with values close to one would be nearly even: normalizing it would magnify
        rounding errors.
        """
        constants = self._model.constants
        return (
            layer.op == "Mul"
            and name not in self._model.weights
            and any(other in constants for other in layer.inputs)
        )

    def _uses(self, name: str) -> Sequence[tuple[Layer, int]]:
        """Layers that take a tensor, and its positions among their inputs."""
        return self._all_uses.get(name, ())

    @cached_property
    def _all_uses(self) -> Mapping[str, Sequence[tuple[Layer, int]]]:
        # One pass for all tensors: a layer may have a hundred thousand inputs.
        found = defaultdict(list)
        for layer in self._model.layers:
            for position, name in enumerate(layer.inputs):
                found[name].append((layer, position))
        return found

    def _default(self, name: str) -> Range:
        """Range of a tensor on which no layer makes a demand."""
        spec = self._model.tensors[name]
        if is_whole(spec.dtype):
            return Range.of(*self._few(name, spec))
        if spec.dtype == "string" or spec.dtype.startswith("complex"):
            return EVERYTHING
        interval = self._interval(name, spec)
        if name not in self._model.weights and self._is_rectified(name):
            return Range.of(np.maximum(interval.low, 0), interval.high)
        return Range.of(interval.low, interval.high, smooth=True)

    def _few(self, name: str, spec: TensorSpec) -> tuple[int, int]:
        """Least and greatest value of integers that are not indices."""
        if spec.dtype == "bool":
            return 0, 1
        for layer, position in self._uses(name):
            facts = standing_for(layer).input(position)
            if facts.codes is not None and name in self._model.weights:
                low, high = facts.codes(layer, spec)
                return int(low), int(high)
            if facts.zero_point:
                return 0, 0
        if spec.dtype in ("int8", "uint8", "int4", "uint4", "int2", "uint2"):
            return 0, 1
        # Attention masks, lengths and divisors: one is valid for all of them.
        return 1, 1

    def _is_index(self, name: str) -> bool:
        """Whether a weight is small and all of its readers use it as indices."""
        spec = self._model.tensors[name]
        uses = tuple(self._uses(name))
        return (
            is_whole(spec.dtype)
            and spec.elements <= _FEW_INDICES
            and bool(uses)
            and all(at in operator(layer.qualified_op).indices for layer, at in uses)
        )

    def _index(self, name: str) -> Array:
        """Values of indices that are part of the model."""
        spec = self._model.tensors[name]
        valid = EVERYTHING
        for layer, position in self._uses(name):
            valid = valid.meet(index_range(self._model, layer, position))
        if valid.hull().low == -np.inf:
            valid = self._default(name)
        # They do not depend on the seed: a copy of a network has other weights, but shares inputs.
        drawn = _whole_numbers(valid, spec.sizes, self._generator(name, 0))
        return drawn.astype(numpy_dtype(spec.dtype))


def _stored(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floats in an element type, none of them denormal or infinite.

    That matters in float16 alone: a large matrix has weights below its normal numbers.
    """
    stored = np.asarray(values, dtype=dtype)
    if dtype == np.float16:
        limits = np.finfo(np.float16)
        np.clip(stored, limits.min, limits.max, out=stored)
        denormal = (stored != 0) & (np.abs(stored) < limits.smallest_normal)
        stored[denormal] = np.copysign(limits.smallest_normal, stored[denormal])
    return stored


def _whole_numbers(valid: Range, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if valid.uniform:
        return rng.integers(int(valid.low), int(valid.high), shape, endpoint=True)
    low, high = valid.low.astype(np.int64), valid.high.astype(np.int64)
    return rng.integers(low, high, shape, endpoint=True)


def _repeated(drawn: Array, shape: tuple[int, ...]) -> Array:
    """A tensor that begins with these numbers and repeats them."""
    values = aligned_empty(shape, drawn.dtype)
    flat = values.reshape(-1)
    for start in range(0, flat.size, drawn.size):
        rest = flat[start : start + drawn.size]
        rest[:] = drawn[: rest.size]
    return values


def _mask(shape: tuple[int, ...]) -> Array:
    """A mask: the first half of each row is true, the rest false.

    Kernels branch on masks. With a random mask, MXNet's ``where`` mispredicts every other element,
    which took 1% of the latency of a small decoder.
    """
    row = np.arange(shape[-1]) < (shape[-1] + 1) // 2 if shape else np.True_
    return np.array(np.broadcast_to(row, shape))


def _feature_maps(
    interval: Range, shape: tuple[int, ...], channels: int, rng: np.random.Generator
) -> Array:
    """Floats that differ more between feature maps than within one.

    Random weights smooth feature maps: deep in a MobileNetV2 the sign changes once in 100 to
    1,000 elements. On pure noise, kernels that branch on the sign mispredict every other element.
    MXNet's ``clip`` takes ten times as long on noise, and 18% longer if the sign changes at 5% of
    the elements. Its GELU takes twice as long on maps of six axes.

    Args:
        interval: Interval of the values.
        shape: Shape of the result, of at least four axes.
        channels: Axis of the channels; each of them is a feature map.
        rng: Random generator.
    """
    common = [shape[0], *(1 for _ in shape[1:])]
    common[channels] = shape[channels]
    values = _floats(Range.of(0.0, 1 - _BETWEEN_MAPS), shape, rng)
    values += _floats(Range.of(0.0, _BETWEEN_MAPS), tuple(common), rng)
    _place(values, interval)
    return values


def _floats(
    interval: Range,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    dtype: np.dtype[Any] = _FLOAT32,
) -> Array:
    """Floats that repeat in large tensors: drawing all of these takes longer than a run."""
    drawn = rng.random(max(1, min(math.prod(shape), _DRAWN)), dtype=np.float32)
    if interval.uniform:
        _place(drawn, interval)
        return _repeated(_stored(drawn, dtype), shape)
    values = _repeated(drawn, shape)
    _place(values, interval)
    return _stored(values, dtype)
