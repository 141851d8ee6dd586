"""Features of layers, from which latencies are predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dlbricks_core.analysis import layer_bytes, layer_flops
from dlbricks_core.bricks import weights_are_reread
from dlbricks_core.figures.statistics import Indices
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.operators.operator import Lacks
from dlbricks_core.operators.others import DOMAIN as CLASSICAL
from dlbricks_core.operators.ranges.weighted import products_of
from dlbricks_core.operators.table import plain, standing_for
from dlbricks_prediction.kinds import class_of, computing, kinds_of
from dlbricks_prediction.layers import integer, integers, product, shapes_of, weight_of
from dlbricks_prediction.patterns import Pattern, pattern_of

NAMES = (
    "flops",
    "read_bytes",
    "weight_bytes",
    "written_bytes",
    "rows",
    "columns",
    "depth",
    "window",
    "stride",
    "groups",
    "column_waste",
    "depth_waste",
    "cold_bytes",
    "dilation",
)
"""Names of a layer's numbers, in the order of the columns of an array of features. All are
logarithms to base 2: of operations, of bytes, of sizes of the layer's equivalent matrix product,
and of the padding of vectors.
"""

WARM = -1.0
"""Cold bytes of a layer that finds its data and the framework's code in the caches, as in a loop of
a small model. A cold layer without weights has 0.
"""

LANES = 16
"""Elements of the widest vectors: 512 bits of float32."""

_COUNTED = frozenset(
    {"DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "GroupQueryAttention", "MatMulIntegerToFloat",
     "MatMulNBits", "MoE", "QAttention", "QGemm", "QMoE"}
)  # fmt: skip
"""ONNX Runtime's own operators whose operations are counted exactly, as are those of classical
machine learning. All others are counted as for the shipped contributions.
"""

_UNCOUNTED = frozenset(
    {"Attention", "BitCast", "CenterCropPad", "CumProd", "Hardmax", "MaxUnpool",
     "QEmbedLayerNormalization", "RMSNormalization", "Range", "ReduceLogSum", "RotaryEmbedding",
     "ScatterElements", "ScatterND", "TensorScatter"}
)  # fmt: skip
"""Operators that got a rule for operations after the shipped contributions were measured, and are
counted as then.
"""


@dataclass(frozen=True)
class Features:
    """Features of the layers of a network, a row for each layer.

    Attributes:
        kinds: Kind of each layer: the class of its operator, its sort and its pattern of memory
            access after ``:``, the short type of its computation after ``~``, and after ``@`` the
            class of the layer that a framework may fuse it into.
        numbers: Array of shape (layers, ``len(NAMES)``).
    """

    kinds: tuple[str, ...]
    numbers: np.ndarray[Any, np.dtype[np.float64]]

    @classmethod
    def of(cls, model: CanonicalModel) -> Features:
        """Features of a brick or of a model."""
        rows = [_numbers(model, layer) for layer in model.layers]
        return cls(kinds_of(model), np.array(rows).reshape(len(rows), len(NAMES)))

    @cached_property
    def classes(self) -> Mapping[str, Indices]:
        """Positions of the layers of each class."""
        found: dict[str, list[int]] = {}
        for place, kind in enumerate(self.kinds):
            found.setdefault(class_of(kind), []).append(place)
        return {name: np.array(places, dtype=np.intp) for name, places in found.items()}

    @property
    def keys(self) -> Sequence[tuple[str, bytes]]:
        """A text of each layer that equal layers share: files hold numbers with 24 bits."""
        numbers = self.numbers.astype(np.float32)
        return [(kind, row.tobytes()) for kind, row in zip(self.kinds, numbers, strict=True)]

    def part(self, layers: Sequence[int] | Indices) -> Features:
        """Features of some of the layers."""
        places = np.asarray(layers, dtype=np.intp)
        return Features(tuple(map(self.kinds.__getitem__, places.tolist())), self.numbers[places])

    @classmethod
    def of_ends(cls, model: CanonicalModel) -> Features:
        """Features of a network's ends: the cost of handing over its inputs and outputs.

        A framework that computes in a layout of its own converts the inputs and outputs of a
        network. Inside a model it need not.
        """
        kinds, rows = [], []
        for name in model.inputs:
            readers = [model.layers[i] for i in model.consumers.get(name, ())]
            kinds.append("enter:" + computing(model, readers))
            rows.append(_end(model.tensors[name], read=True))
        for name in dict.fromkeys(model.outputs):
            made = [model.layers[model.producers[name]]] if name in model.producers else []
            kinds.append("leave:" + computing(model, made))
            rows.append(_end(model.tensors[name], read=False))
        return cls(tuple(kinds), np.array(rows).reshape(len(rows), len(NAMES)))


def _end(spec: TensorSpec, *, read: bool) -> list[float]:
    """Numbers of a tensor that is handed over."""
    size = _log(spec.nbytes) if spec.is_static else 0.0
    found = dict.fromkeys(NAMES, 0.0)
    found["read_bytes" if read else "written_bytes"] = size
    return list(found.values())


def _numbers(model: CanonicalModel, layer: Layer) -> list[float]:
    weights = sum(
        model.tensors[name].nbytes
        for name in layer.reads
        if name in model.weights and model.tensors[name].is_static
    )
    activations = [
        model.tensors[name]
        for name in layer.reads
        if name not in model.weights and model.tensors[name].is_static
    ]
    outputs = [model.tensors[name] for name in layer.outputs if name]
    outputs = [spec for spec in outputs if spec.is_static]
    moved = layer_bytes(model, layer) or 0
    written = sum(spec.nbytes for spec in outputs) if moved else 0
    # An operator that picks rows of a table reads only as much of it as it writes.
    weights = min(weights, max(moved - written, 0)) if moved else weights
    read = min(sum(spec.nbytes for spec in activations), max(moved - written - weights, 0))
    rows, columns, depth, window, groups = _matrix(model, layer, outputs, activations)
    return [
        _log(flops_of(model, layer)),
        _log(read),
        _log(weights),
        _log(written),
        _log(rows),
        _log(columns),
        _log(depth),
        _log(window),
        _log(product(layer, "strides")),
        _log(groups),
        _waste(columns),
        _waste(depth),
        WARM if weights_are_reread(model) else _log(weights),
        math.log2(max(product(layer, "dilations"), 1)),
    ]


def flops_of(model: CanonicalModel, layer: Layer) -> int:
    """Operations of a layer; an estimate where its operator has no rule."""
    if layer.op in _COUNTED or layer.op.startswith("QLinear") or layer.domain == CLASSICAL:
        return round((layer_flops(model, layer) or 0) * _inside(model, layer))
    op, row = plain(layer.op), standing_for(layer)
    found = None
    if op not in _UNCOUNTED:
        usual = op == layer.op and not layer.domain
        found = layer_flops(model, layer if usual else replace(layer, op=op, domain=""))
    if found == 0 and row.looks_up:
        return _picks(model, layer)
    if found is not None:
        return round(found * _inside(model, layer))
    if layer.op == "Attention":
        return _attention_flops(model, layer)
    outputs = [model.tensors[name] for name in layer.outputs if name]
    written = sum(spec.elements for spec in outputs if spec.is_static)
    if not isinstance(row.kind, Lacks):
        return written
    # Of what is unknown, each element is handled once, in the largest of its tensors.
    read = [model.tensors[name] for name in layer.reads]
    return max(written, *(spec.elements for spec in read if spec.is_static), 0)


def _picks(model: CanonicalModel, layer: Layer) -> int:
    """Number of places that a layer looks up, each with as many elements as lie together there."""
    pattern = pattern_of(model, layer)
    written = sum(math.prod(shape) for shape in shapes_of(model, layer.outputs))
    return written // max(pattern.run if pattern else 1, 1)


def _inside(model: CanonicalModel, layer: Layer) -> float:
    """Share of a convolution's multiplications that do not involve padding.

    Frameworks skip multiplications with padding, which are the majority where a dilated window
    exceeds its feature map.
    """
    window = integers(layer, "kernel_shape")
    shapes = shapes_of(model, (*layer.inputs[:1], *layer.outputs[:1]))
    pads = integers(layer, "pads")
    if standing_for(layer).kind != "convolution" or not pads or len(shapes) < 2:
        return 1.0
    read, written = shapes
    ones = (1,) * len(window)
    strides = integers(layer, "strides") or ones
    dilations = integers(layer, "dilations") or ones
    share = 1.0
    for axis, size in enumerate(window):
        begins = np.arange(written[2 + axis]) * strides[axis] - pads[axis]
        places = begins[:, None] + np.arange(size)[None, :] * dilations[axis]
        share *= float(((places >= 0) & (places < read[2 + axis])).mean())
    return share


def _attention_flops(model: CanonicalModel, layer: Layer) -> int:
    """Both matrix products and the softmax, for query and key of shape (..., length, width)."""
    specs = [model.tensors[name] for name in layer.inputs[:2] if name]
    if len(specs) < 2 or not all(spec.is_static and len(spec.sizes) > 2 for spec in specs):
        return 0
    query, key = (spec.sizes for spec in specs)
    length = key[-2] if len(key) == 4 else key[1]
    heads = query[1] if len(query) == 4 else integer(layer, "q_num_heads", 1)
    rows = query[-2] if len(query) == 4 else query[1]
    width = query[-1] if len(query) == 4 else query[-1] // heads
    return query[0] * heads * rows * length * (4 * width + 5)


def _matrix(
    model: CanonicalModel,
    layer: Layer,
    outputs: Sequence[TensorSpec],
    activations: Sequence[TensorSpec],
) -> tuple[float, float, float, float, float]:
    """Rows, columns and depth of a layer's equivalent matrix product; its window and groups."""
    kind = standing_for(layer).kind
    result = outputs[0].sizes if outputs else ()
    elements = math.prod(result) if result else 1
    weight = weight_of(model, layer)
    if kind in ("convolution", "convolution:transposed") and weight is not None:
        groups = integer(layer, "group", 1)
        window = math.prod(weight.sizes[2:])
        columns, channels = weight.sizes[0] // groups, weight.sizes[1]
        if kind == "convolution:transposed":
            columns, channels = channels, columns
        return elements / max(columns * groups, 1), columns, channels * window, window, groups
    if kind == "product" and activations and len(result) > 1:
        depth = _depth(model, layer)
        columns = result[-1]
        if weight is not None:
            return elements / max(columns, 1), columns, depth, 1, 1
        return result[-2], columns, depth, 1, elements / max(result[-2] * columns, 1)
    if kind in ("product:8-bit", "product:bits") and weight is not None and len(result) > 1:
        return elements / max(result[-1], 1), result[-1], _depth(model, layer), 1, 1
    if kind == "attention:grouped":
        return _grouped_matrix(model, layer)
    if kind == "product:einsum":
        return _einsum_matrix(model, layer)
    if kind == "recurrent":
        shapes = shapes_of(model, layer.inputs[:3])
        if [len(shape) for shape in shapes] == [3, 3, 3]:
            (steps, batch, width), (directions, columns, _), (_, _, hidden) = shapes
            return batch, columns, max(width, hidden), steps, directions
    if kind == "attention" and not layer.domain:
        shapes = shapes_of(model, layer.inputs[:2])
        if len(shapes) == 2 and all(len(shape) > 2 for shape in shapes):
            query, key = shapes
            return query[-2], key[-2], query[-1], 1, query[0]
    window = product(layer, "kernel_shape")
    last = result[-1] if result else 1
    pattern = pattern_of(model, layer) or Pattern("")
    last = pattern.run or last
    return elements / max(last, 1), last, pattern.depth, window, 1


def _grouped_matrix(
    model: CanonicalModel, layer: Layer
) -> tuple[float, float, float, float, float]:
    """Equivalent matrix product of the scores of an attention whose cache is an input."""
    shapes = shapes_of(model, (*layer.outputs[:1], *layer.outputs[1:2]))
    if not shapes or len(shapes[0]) != 3:
        return 1, 1, 1, 1, 1
    batch, steps, width = shapes[0]
    heads = max(integer(layer, "num_heads", 1), 1)
    keys = shapes[1][2] if len(shapes) > 1 and len(shapes[1]) == 4 else steps
    return steps, keys, width // heads, 1, batch * heads


def _einsum_matrix(model: CanonicalModel, layer: Layer) -> tuple[float, float, float, float, float]:
    """The largest matrix product of an Einstein sum."""
    shapes = shapes_of(model, layer.inputs)
    try:
        products = products_of(str(layer.attributes["equation"]), shapes)
    except ValueError:  # sizes are unknown, or no runtime would run it
        products = []
    if not products:
        return 1, 1, 1, 1, 1
    largest = max(products, key=lambda each: each.flops)
    return largest.rows, largest.columns, largest.depth, 1, largest.batch


def _depth(model: CanonicalModel, layer: Layer) -> int:
    """Length of the inner axis of a matrix product."""
    shapes = shapes_of(model, layer.inputs[:1])
    return shapes[0][0 if integer(layer, "transA", 0) else -1] if shapes and shapes[0] else 1


def _log(number: float) -> float:
    return math.log2(number + 1)


def _waste(size: float) -> float:
    """Padding of vectors that hold ``size`` elements: logarithm of padded over actual size."""
    whole = max(size, 1)
    return math.log2(math.ceil(whole / LANES) * LANES / whole)


def joined(parts: Iterable[Features]) -> Features:
    """Features of several networks, one after another."""
    every = list(parts)
    return Features(
        tuple(kind for each in every for kind in each.kinds),
        np.concatenate([each.numbers for each in every]) if every else np.zeros((0, len(NAMES))),
    )


def distinct(parts: Sequence[Features]) -> tuple[Features, list[Indices]]:
    """Each layer once that several lists hold, and the positions of the layers of each list."""
    every = joined(parts)
    names = {kind: place for place, kind in enumerate(dict.fromkeys(every.kinds))}
    kinds = np.array([names[kind] for kind in every.kinds], dtype=np.uint64)
    bits = np.column_stack([kinds, every.numbers.view(np.uint64)])
    # Sorting single numbers takes a fraction of sorting rows.
    hashes = (bits ^ (bits >> np.uint64(29))) @ _FACTORS
    _, first, places = np.unique(hashes, return_index=True, return_inverse=True)
    if not (bits[first[places]] == bits).all():  # two layers share a hash, which no one has seen
        first = places = np.arange(len(bits))
    ends = np.cumsum([len(each.kinds) for each in parts])[:-1]
    return every.part(first), np.split(places, ends)


_FACTORS = np.random.default_rng(0).integers(2**63, size=len(NAMES) + 1, dtype=np.uint64) * 2 + 1
"""Odd factors of a layer's kind and of its numbers, in its hash."""
