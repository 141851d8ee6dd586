"""Conversion of weights to integers, as ONNX Runtime's quantizers write it.

Types and shapes of a model are enough: the weights have no values here, and scales are those of
weights that keep the magnitude of activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dlbricks_contrib.domain import DOMAIN
from dlbricks_core.ir import Array, Attribute, CanonicalModel, Layer, TensorSpec, numpy_dtype
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_core.passes.normalize import normalize
from dlbricks_core.passes.shapes import UNKNOWN

BLOCK = 32
"""Rows of a matrix that share a scale in ``int4``."""

_ACCURACY_LEVEL = 4
"""Activations of ``int4`` are quantized to eight bits too, which is fastest on CPUs."""

_SPREAD = math.sqrt((255**2 - 1) / 12)
"""Standard deviation of codes of eight bits."""


def to_int8(model: CanonicalModel) -> CanonicalModel:
    """The model with dynamic quantization to eight bits, as ``quantize_dynamic`` writes it.

    Products of an activation and a weight become products of integers, and tables of embeddings
    are quantized. Convolutions, recurrent layers and products of two activations keep their type,
    and so do a Gemm that scales and all layers of other types than float32. A model whose products
    have codes of eight bits, as the builder of onnxruntime-genai writes them, stays as it is.
    """
    if any(layer.op == "MatMulNBits" and layer.attributes["bits"] == 8 for layer in model.layers):
        return model
    return _converted(model, {"MatMul": _matmul_int8, "Gemm": _gemm_int8, "Gather": _gather_int8})


def to_int4(model: CanonicalModel) -> CanonicalModel:
    """The model with weights of four bits, as ONNX Runtime GenAI's recipe for CPUs has them.

    Every MatMul of a floating-point activation and a matrix of weights, the last one included,
    becomes a MatMulNBits with symmetric blocks of 32 and accuracy level 4. So does a last product
    with the table of embeddings, which is a Gemm. Everything else stays.
    """
    return _converted(model, {"MatMul": _matmul_int4, "Gemm": _tied_int4})


@dataclass
class _Draft:
    """The converted model as far as it is written.

    Attributes:
        model: The former model.
        tensors: Specifications of all tensors, those of new results unknown.
        weights: Names of new weights.
        constants: Values of new weights that are known.
        layers: Layers so far.
        quantized: Codes, scale and zero point of each activation that is quantized, by name.
    """

    model: CanonicalModel
    tensors: dict[str, TensorSpec]
    weights: set[str] = field(default_factory=set)
    constants: dict[str, Array] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    quantized: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def spec(self, name: str) -> TensorSpec:
        """Specification of a tensor of the former model."""
        return self.model.tensors[name]

    def is_weight(self, name: str, *, rank: int = 0) -> bool:
        """Whether a tensor is a weight of type float32, and a matrix if that is asked."""
        spec = self.spec(name)
        fits = not rank or spec.rank == rank
        return name in self.model.weights and spec.dtype == "float32" and fits

    def weight(
        self, name: str, dtype: str, shape: Sequence[int], value: float | None = None
    ) -> str:
        """Adds a weight, once for each name; with a value where one is given."""
        if name not in self.weights:
            name = self._unused(name)
            self.weights.add(name)
            self.tensors[name] = TensorSpec(dtype, tuple(shape))
            if value is not None:
                self.constants[name] = np.full(tuple(shape), value, dtype=numpy_dtype(dtype))
        return name

    def result(self, name: str) -> str:
        """Name of a new result."""
        name = self._unused(name)
        self.tensors[name] = UNKNOWN
        return name

    def _unused(self, name: str) -> str:
        while name in self.tensors:
            name += "_"
        return name

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
        domain: str = "",
    ) -> None:
        """Adds a layer."""
        self.layers.append(Layer(op, tuple(inputs), tuple(outputs), attributes or {}, domain))

    def codes(
        self, name: str, dtype: str, shape: Sequence[int], depth: int
    ) -> tuple[str, str, str]:
        """Codes, scale and zero point of a weight that is summed over ``depth`` rows."""
        scale = 1 / (_SPREAD * math.sqrt(max(depth, 1)))
        middle = 128 if dtype == "uint8" else 0
        return (
            self.weight(f"{name}_quantized", dtype, shape),
            self.weight(f"{name}_scale", "float32", (), scale),
            self.weight(f"{name}_zero_point", dtype, (), middle),
        )

    def activation(self, name: str) -> tuple[str, str, str]:
        """Codes, scale and zero point of an activation, which is quantized once."""
        if name not in self.quantized:
            ends = ("quantized", "scale", "zero_point")
            made = tuple(self.result(f"{name}_{end}") for end in ends)
            self.add("DynamicQuantizeLinear", [name], made)
            self.quantized[name] = (made[0], made[1], made[2])
        return self.quantized[name]


_Rule = Callable[[_Draft, Layer], bool]
"""Writes the replacement of a layer; ``False`` if the layer stays."""


def _converted(model: CanonicalModel, rules: Mapping[str, _Rule]) -> CanonicalModel:
    draft = _Draft(model, dict(model.tensors))
    for layer in model.layers:
        rule = None if layer.domain or layer.opaque else rules.get(layer.op)
        if rule is None or not rule(draft, layer):
            draft.layers.append(layer)
    changed = replace(
        model,
        layers=tuple(draft.layers),
        tensors=draft.tensors,
        weights=model.weights | draft.weights,
        constants={**model.constants, **draft.constants},
        opsets={DOMAIN: 1, **model.opsets},
    )
    return replace(normalize(changed.as_raw()), annotations=model.annotations)


def _matmul_int8(draft: _Draft, layer: Layer) -> bool:
    left, right = layer.inputs
    if not draft.is_weight(right) or draft.spec(left).dtype != "float32":
        return False
    shape = draft.spec(right).sizes
    _product_int8(draft, left, (right, shape), layer.outputs[0])
    return True


def _gemm_int8(draft: _Draft, layer: Layer) -> bool:
    left, right, *bias = layer.inputs
    plain = layer.attributes["alpha"] == 1 and layer.attributes["beta"] == 1
    turned = bool(layer.attributes["transB"])
    if not plain or layer.attributes["transA"] or not draft.is_weight(right, rank=2):
        return False
    if draft.spec(left).dtype != "float32":
        return False
    rows, columns = draft.spec(right).sizes
    shape = (columns, rows) if turned else (rows, columns)
    product = draft.result(f"{layer.outputs[0]}_MatMul") if bias else layer.outputs[0]
    _product_int8(draft, left, (right, shape), product)
    if bias:
        draft.add("Add", [product, bias[0]], layer.outputs)
    return True


def _product_int8(draft: _Draft, left: str, right: tuple[str, Sequence[int]], product: str) -> None:
    """A product of integers, as floats again.

    Args:
        draft: Model to add to.
        left: Name of the activation.
        right: Name of the weight, and its shape without transposition.
        product: Name of the result.
    """
    name, shape = right
    codes, scale, zero = draft.activation(left)
    depth = shape[-2] if len(shape) > 1 else shape[0]
    codes_of_weight, scale_of_weight, zero_of_weight = draft.codes(name, "int8", shape, depth)
    both, summed, floats = (
        draft.result(f"{product}_{end}") for end in ("scales", "output_quantized", "cast_output")
    )
    draft.add("Mul", [scale, scale_of_weight], [both])
    draft.add("MatMulInteger", [codes, codes_of_weight, zero, zero_of_weight], [summed])
    draft.add("Cast", [summed], [floats], {"to": DTYPE_NUMBERS["float32"]})
    draft.add("Mul", [floats, both], [product])


def _gather_int8(draft: _Draft, layer: Layer) -> bool:
    table = layer.inputs[0]
    if not draft.is_weight(table):
        return False
    shape = draft.spec(table).sizes
    codes, scale, zero = draft.codes(f"{table}_table", "uint8", shape, depth=1)
    picked = draft.result(f"{layer.outputs[0]}_quantized")
    draft.add("Gather", [codes, layer.inputs[1]], [picked], layer.attributes)
    draft.add("DequantizeLinear", [picked, scale, zero], layer.outputs)
    return True


def _matmul_int4(draft: _Draft, layer: Layer) -> bool:
    left, right = layer.inputs
    spec = draft.spec(right)
    if right not in draft.model.weights or spec.rank != 2 or draft.spec(left).rank < 2:
        return False
    if spec.dtype not in ("float32", "float16"):
        return False
    _product_int4(draft, left, right, spec.sizes, layer.outputs)
    return True


def _tied_int4(draft: _Draft, layer: Layer) -> bool:
    left, right, *bias = layer.inputs
    tables = {each.inputs[0] for each in draft.model.layers if each.op == "Gather"}
    attributes = layer.attributes
    plain = attributes["alpha"] == attributes["beta"] == 1 and not attributes["transA"]
    if bias or not (plain and attributes["transB"] and right in tables):
        return False
    if not draft.is_weight(right, rank=2):
        return False
    columns, depth = draft.spec(right).sizes
    _product_int4(draft, left, right, (depth, columns), layer.outputs)
    return True


def _product_int4(
    draft: _Draft, left: str, right: str, shape: Sequence[int], outputs: Sequence[str]
) -> None:
    """A product with a weight of four bits, whose shape is given without transposition."""
    depth, columns = shape
    blocks = -(-depth // BLOCK)
    codes = draft.weight(f"{right}_Q4", "uint8", (columns, blocks, BLOCK // 2))
    scales = draft.weight(f"{right}_scales", draft.spec(right).dtype, (columns, blocks))
    attributes = {
        "K": depth,
        "N": columns,
        "accuracy_level": _ACCURACY_LEVEL,
        "bits": 4,
        "block_size": BLOCK,
    }
    draft.add("MatMulNBits", [left, codes, scales], outputs, attributes, DOMAIN)
