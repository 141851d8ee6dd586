"""Strides that OpenVINO moves to earlier layers, so that these leave out points nobody reads.

A convolution of one point with stride 2 reads every second point. OpenVINO computes only those:
it moves the stride through sums and activations to the convolution before. Where one reader of a
feature map wants every point and another does not, that other gets a ``MaxPool`` of one point in
front.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

_ELEMENTWISE = frozenset((
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "Ceil",
    "Clip", "Cos", "Cosh", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSwish", "Log", "Max",
    "Min", "Mish", "Mul", "Neg", "Pow", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh",
))  # fmt: skip
"""Operators that strides pass through."""

_FIRST_SPATIAL = 2
"""Axis of a feature map from which on its axes are spatial, behind batch and channels."""

Strides = tuple[int, ...]


def with_early_strides(model: CanonicalModel) -> CanonicalModel:
    """The model with strides where OpenVINO executes them; its inputs and outputs are the same."""
    return _Moved(model).result()


@dataclass
class _Moved:
    """Strides on their way from the last layer to the first.

    Attributes:
        model: The model.
        wanted: Strides with which a layer's input is read, by the layer's index and the position.
        strides: Strides of each convolution, by its index.
        steps: Strides between the points of a tensor that are still computed.
        pooled: Inputs that need a ``MaxPool`` in front, with its strides.
    """

    model: CanonicalModel
    wanted: dict[tuple[int, int], Strides] = field(default_factory=dict)
    strides: dict[int, Strides] = field(default_factory=dict)
    steps: dict[str, Strides] = field(default_factory=dict)
    pooled: dict[tuple[int, int], Strides] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index in reversed(range(len(self.model.layers))):
            self._move(index)
        for name in self.model.inputs:
            self._settle(name)

    def result(self) -> CanonicalModel:
        if not (self.steps or self.pooled):
            return self.model
        tensors = {name: self._thinned(name) for name in self.model.tensors}
        layers: list[Layer] = []
        for index, layer in enumerate(self.model.layers):
            inputs = list(layer.inputs)
            for position in range(len(inputs)):
                if strides := self.pooled.get((index, position)):
                    pool = _pool(inputs[position], f"{layer.outputs[0]}:every{position}", strides)
                    tensors[pool.outputs[0]] = _every(tensors[inputs[position]], strides)
                    layers.append(pool)
                    inputs[position] = pool.outputs[0]
            own = {"strides": self.strides[index]} if index in self.strides else {}
            attributes = {**layer.attributes, **own}
            layers.append(replace(layer, inputs=tuple(inputs), attributes=attributes))
        return replace(self.model, layers=tuple(layers), tensors=tensors)

    def _move(self, index: int) -> None:
        layer = self.model.layers[index]
        for name in filter(None, layer.outputs):
            agreed = self._agreed(name) if len(layer.outputs) == 1 else None
            if _is_convolution(layer):
                own = layer.attributes["strides"]
                assert isinstance(own, tuple)
                if agreed:
                    own = tuple(a * b for a, b in zip(own, agreed, strict=True))
                    self.steps[name] = agreed
                else:
                    self._settle(name)
                self._place(index, own)
            elif agreed and (positions := tuple(self._maps(layer))):
                self.steps[name] = agreed
                self.wanted |= dict.fromkeys(((index, each) for each in positions), agreed)
            else:
                self._settle(name)

    def _place(self, index: int, own: Strides) -> None:
        """Strides of a convolution: at its input if it reads single points, else its own."""
        layer = self.model.layers[index]
        kernel = self.model.tensors[layer.inputs[1]].sizes[_FIRST_SPATIAL:]
        if {*kernel} == {1} and not any(layer.attributes["pads"]):  # type: ignore[arg-type]
            self.strides[index] = (1,) * len(own)
            self.wanted[index, 0] = own
        else:
            self.strides[index] = own

    def _agreed(self, name: str) -> Strides | None:
        """Strides with which every reader reads a tensor; ``None`` if one wants all points."""
        found = {self.wanted.get(reader) for reader in self._readers(name)}
        if name in self.model.output_names or len(found) != 1:
            return None
        (strides,) = found
        return strides if strides and max(strides) > 1 else None

    def _settle(self, name: str) -> None:
        """Leaves strides with the readers of a tensor whose points are all computed."""
        for reader in self._readers(name):
            strides = self.wanted.get(reader, ())
            if strides and max(strides) > 1:
                if _is_convolution(self.model.layers[reader[0]]):
                    self.strides[reader[0]] = strides
                else:
                    self.pooled[reader] = strides

    def _readers(self, name: str) -> Iterator[tuple[int, int]]:
        for index in self.model.consumers.get(name, ()):
            for position, read in enumerate(self.model.layers[index].inputs):
                if read == name:
                    yield index, position

    def _maps(self, layer: Layer) -> Iterator[int]:
        """Positions of inputs with the points of the result; none where strides do not pass."""
        if layer.qualified_op not in _ELEMENTWISE:
            return
        points = self.model.tensors[layer.outputs[0]].sizes[_FIRST_SPATIAL:]
        found = []
        for position, name in enumerate(layer.inputs):
            if layer.op == "BatchNormalization" and position:
                break
            sizes = self.model.tensors[name].sizes[_FIRST_SPATIAL:] if name else ()
            broadcast = not {*sizes} - {1}
            if name in self.model.weights or len(sizes) < len(points):
                if not broadcast:
                    return
            elif broadcast or sizes == points:
                found.append(position)
            else:
                return
        yield from found

    def _thinned(self, name: str) -> TensorSpec:
        spec = self.model.tensors[name]
        return _every(spec, self.steps[name]) if name in self.steps else spec


def _is_convolution(layer: Layer) -> bool:
    return layer.qualified_op == "Conv" and layer.attributes["group"] == 1


def _every(spec: TensorSpec, strides: Strides) -> TensorSpec:
    """A feature map with every so many of its points."""
    points = zip(spec.sizes[_FIRST_SPATIAL:], strides, strict=True)
    return replace(spec, shape=(*spec.sizes[:_FIRST_SPATIAL], *(-(-n // s) for n, s in points)))


def _pool(read: str, made: str, strides: Strides) -> Layer:
    ones = (1,) * len(strides)
    attributes: Mapping[str, int | Strides] = {
        "kernel_shape": ones, "strides": strides, "dilations": ones,
        "pads": (0,) * 2 * len(strides), "ceil_mode": 0, "storage_order": 0,
    }  # fmt: skip
    return Layer("MaxPool", (read,), (made,), attributes)
