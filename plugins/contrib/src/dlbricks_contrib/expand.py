"""Puts definitions in the place of operators that a framework has no counterpart of.

An operator without a definition, or whose definition raises ``UnsupportedError``, is unsupported
there and is reported by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from dlbricks_contrib import attention, definitions
from dlbricks_contrib.definitions import Body
from dlbricks_contrib.domain import DOMAIN, WITHOUT_DOMAIN
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import (
    CANONICAL_OPSET,
    Array,
    CanonicalModel,
    Layer,
    Network,
    RawModel,
    TensorSpec,
)
from dlbricks_core.ir.attributes import tensor_array, tensor_value
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.passes.forms.form import RawLayer
from dlbricks_core.passes.normalize import normalize
from dlbricks_core.passes.shapes import UNKNOWN

Definition = Callable[[Body], None]

_OWN: Mapping[str, Definition] = {
    "Attention": attention.projected,
    "BiasGelu": definitions.gelu,
    "DynamicQuantizeMatMul": definitions.dynamic_quantize_matmul,
    "EmbedLayerNormalization": definitions.embedding,
    "FastGelu": definitions.fast_gelu,
    "FusedGemm": definitions.fused_gemm,
    "FusedMatMul": definitions.fused_matmul,
    "Gelu": definitions.gelu,
    "GroupQueryAttention": attention.grouped_query,
    "MatMulIntegerToFloat": definitions.matmul_integer_to_float,
    "MatMulNBits": definitions.matmul_nbits,
    "MultiHeadAttention": attention.multi_head,
    "QAttention": attention.quantized,
    "QGemm": definitions.quantized_gemm,
    "QLinearAdd": definitions.quantized_of_two("Add"),
    "QLinearAveragePool": definitions.quantized_of_one(
        "AveragePool", "kernel_shape", "strides", "pads", "ceil_mode", "auto_pad",
        "count_include_pad",
    ),
    "QLinearConcat": definitions.quantized_concat,
    "QLinearGlobalAveragePool": definitions.quantized_of_one("GlobalAveragePool"),
    "QLinearLeakyRelu": definitions.quantized_of_one("LeakyRelu", "alpha"),
    "QLinearMul": definitions.quantized_of_two("Mul"),
    "QLinearSigmoid": definitions.quantized_of_one("Sigmoid"),
    "QLinearSoftmax": definitions.quantized_softmax,
    "QLinearWhere": definitions.quantized_where,
    "QuickGelu": definitions.quick_gelu,
    "RotaryEmbedding": attention.rotary,
    "SkipLayerNormalization": definitions.skip_normalization,
    "SkipSimplifiedLayerNormalization": definitions.skip_simplified_normalization,
}  # fmt: skip

DEFINITIONS: Mapping[tuple[str, str], Definition] = {
    ("", WITHOUT_DOMAIN): definitions.simplified_normalization,
    **{(DOMAIN, op): define for op, define in _OWN.items()},
}
"""Definition of each operator, by domain and type."""


@dataclass(frozen=True)
class Expanded:
    """A model whose layers a framework knows.

    Attributes:
        model: The model, in canonical form.
        values: Values of the weights that definitions brought along, by name.
        origins: For each layer, the index of the layer of the former model that it stands for.
        refused: Reason for each layer of the former model that its definition does not cover; it
            is in the model as it was.
    """

    model: CanonicalModel
    origins: tuple[int, ...]
    values: Mapping[str, Array] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)

    def network(self, network: Network) -> Network:
        """The model with the values of the former one."""
        return replace(network, model=self.model, weights={**network.weights, **self.values})


def expanded(model: CanonicalModel, known: Container[str]) -> Expanded:
    """The model with definitions of ONNX in the place of operators that are not known.

    Args:
        model: Model in canonical form, without opaque layers.
        known: Operators that stay, with their domain in front where that is not ``ai.onnx``.
    """
    if not any(_is_defined(layer, known) for layer in model.layers):
        return Expanded(model, tuple(range(len(model.layers))))
    layers: list[Layer] = []
    origins: list[int] = []
    refused: dict[int, str] = {}
    tensors = dict(model.tensors)
    values: dict[str, Array] = {}
    constants = dict(model.constants)
    for index, layer in enumerate(model.layers):
        parts: Iterable[Layer] = (layer,)
        if _is_defined(layer, known):
            try:
                defined = _definition_of(_without_names(model, layer))
            except UnsupportedError as error:
                refused[index] = error.message
            else:
                names = _names(defined, layer, index)
                tensors |= {names[name]: spec for name, spec in defined.model.tensors.items()}
                values |= {names[name]: value for name, value in defined.values.items()}
                known_here = defined.model.constants
                constants |= {names[name]: value for name, value in known_here.items()}
                parts = [_renamed(part, names) for part in defined.model.layers]
        for part in parts:
            layers.append(part)
            origins.append(index)
    read = {name for layer in layers for name in layer.reads} | model.output_names
    weights = (model.weights | values.keys()) & read
    whole = replace(
        model,
        layers=tuple(layers),
        tensors=tensors,
        weights=weights,
        constants={name: value for name, value in constants.items() if name in weights},
        opsets={**model.opsets, "": CANONICAL_OPSET},
    )
    return Expanded(whole, tuple(origins), values, refused)


def _is_defined(layer: Layer, known: Container[str]) -> bool:
    return (
        (layer.domain, layer.op) in DEFINITIONS
        and layer.qualified_op not in known
        and not layer.opaque
    )


@dataclass(frozen=True)
class _Defined:
    """A definition with local names, ``<0`` for the layer's first input, ``>0`` for its result."""

    model: CanonicalModel
    values: Mapping[str, Array]


def _without_names(model: CanonicalModel, layer: Layer) -> RawLayer:
    known = model.constants
    return RawLayer(
        op=layer.op,
        domain=layer.domain,
        opset=1,
        attributes=tuple(sorted(layer.attributes.items())),
        inputs=tuple(model.tensors[name] if name else None for name in layer.inputs),
        values=tuple(
            (at, tensor_value(known[name]))
            for at, name in enumerate(layer.inputs)
            if name in known and known[name].dtype.kind in "iu" and known[name].size == 1
        ),
        outputs=tuple(bool(name) for name in layer.outputs),
    )


@lru_cache(maxsize=1 << 10)
def _definition_of(raw: RawLayer) -> _Defined:
    """Layers in canonical form that compute the results of a layer."""
    layer = Layer(
        raw.op,
        tuple(f"<{at}" if spec is not None else "" for at, spec in enumerate(raw.inputs)),
        tuple(f">{at}" if wanted else "" for at, wanted in enumerate(raw.outputs)),
        dict(raw.attributes),
        raw.domain,
    )
    numbers = {at: tensor_array(value) for at, value in raw.values}
    body = Body(layer, raw.inputs, [numbers.get(at) for at in range(len(raw.inputs))])
    DEFINITIONS[raw.domain, raw.op](body)
    given = {name for part in body.layers for name in part.outputs}
    if lacking := [at for at, name in enumerate(layer.outputs) if name and name not in given]:
        raise UnsupportedError(f"its result {lacking[0]} has no definition")
    tensors: dict[str, TensorSpec] = {
        name: UNKNOWN for part in body.layers for name in part.outputs
    }
    tensors |= {f"<{at}": spec for at, spec in enumerate(raw.inputs) if spec is not None}
    tensors |= body.specs()
    canonical = normalize(
        RawModel(
            name=raw.op,
            layers=tuple(body.layers),
            inputs=layer.reads,
            outputs=tuple(name for name in layer.outputs if name),
            tensors=tensors,
            weights=frozenset(body.constants),
            constants={
                name: value
                for name, value in body.constants.items()
                if value.size <= MAX_CONSTANT_ELEMENTS
            },
            opsets={"": CANONICAL_OPSET},
        )
    )
    values = {**body.constants, **canonical.constants}
    return _Defined(canonical, {name: values[name] for name in canonical.weights})


def _names(defined: _Defined, layer: Layer, index: int) -> dict[str, str]:
    """The model's name of each tensor of a definition."""
    names = {name: f"{layer.op}.{index}.{name}" for name in defined.model.tensors}
    names |= {f"<{at}": name for at, name in enumerate(layer.inputs) if name}
    names |= {f">{at}": name for at, name in enumerate(layer.outputs) if name}
    return names | {"": ""}


def _renamed(part: Layer, names: Mapping[str, str]) -> Layer:
    return replace(
        part,
        inputs=tuple(names[name] for name in part.inputs),
        outputs=tuple(names[name] for name in part.outputs),
    )
