"""The ONNX reference evaluator, run inside a worker process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from dlbricks_contrib.expand import expanded
from dlbricks_contrib.layer_view import LayerView
from onnx.reference import ReferenceEvaluator

from dlbricks_core.errors import BackendError
from dlbricks_core.ir import Array, CanonicalModel, Layer, Network, numpy_dtype, to_onnx
from dlbricks_core.operators.compound import GATE_ACTIVATIONS
from dlbricks_core.passes.convert import convert
from dlbricks_core.values import materialize


class ReferenceHost:
    """Service that computes a model by the definitions of its operators; it may take long."""

    def outputs(self, model: CanonicalModel, seed: int) -> Mapping[str, Array]:
        """Results by name, for the same weights and inputs as on every backend with this seed.

        Floats shorter than float32 are computed in float32: numpy lacks kernels for most of these
        types, and a comparison then shows the rounding errors of a backend.

        Raises:
            BackendError: If a result is not a tensor.
        """
        wide = _wide(materialize(model, seed))
        network = expanded(wide.model, known=()).network(wide)
        evaluator = ReferenceEvaluator(to_onnx(network.model, network.weights))
        with np.errstate(all="ignore"):
            results = evaluator.run(None, dict(network.inputs))
        return {name: _tensor(name, r) for name, r in zip(model.outputs, results, strict=True)}


def _wide(network: Network) -> Network:
    """The network with its shorter floats converted to float32."""
    model = convert(network.model, "float32")

    def widened(values: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
        return {
            name: values[name].astype(numpy_dtype(model.tensors[name].dtype), copy=False)
            for name in names
        }

    return Network(
        model, widened(network.weights, model.weights), widened(network.inputs, model.inputs)
    )


def _tensor(name: str, result: object) -> Array:
    if not isinstance(result, np.ndarray | np.generic):
        raise BackendError(f"output {name} is not a tensor")
    return np.asarray(result)


# Known defects of the ONNX reference evaluator.
#
# They were found by running every attribute of recurrent, pooling, normalization, attention,
# resizing and quantizing layers on the evaluator of onnx 1.23 and on three frameworks. In each
# case, the frameworks agreed with each other and with the operator's definition. A test checks
# each entry with the installed version.

_RECURRENT = tuple(GATE_ACTIVATIONS)
_LENGTHS, _INDICES, _SCORES = 4, 1, 3
"""Positions of the lengths of sequences among inputs, and of the indices of a pooling and the
scores of an attention among outputs."""


@dataclass(frozen=True)
class Defect:
    """A defect of the evaluator.

    Attributes:
        operators: Operators whose results are wrong.
        applies: Function that returns whether the defect affects a layer of a model.
        why: Description of the defect, to follow the operator and a colon.
    """

    operators: tuple[str, ...]
    applies: Callable[[CanonicalModel, Layer], bool]
    why: str


def known_defects(model: CanonicalModel) -> tuple[str, ...]:
    """Known defects that affect the evaluator's results for a model, one line for each.

    Args:
        model: Model in canonical form.
    """
    found = Counter(
        (layer.op, defect.why)
        for layer in model.layers
        for defect in DEFECTS
        if not layer.domain and layer.op in defect.operators and defect.applies(model, layer)
    )
    return tuple(f"{op}{f' (x{n})' if n > 1 else ''}: {why}" for (op, why), n in found.items())


def _set(name: str) -> Callable[[CanonicalModel, Layer], bool]:
    return lambda model, layer: bool(layer.attributes.get(name))


def _numbers(layer: Layer, name: str) -> tuple[int, ...]:
    value = layer.attributes.get(name, ())
    return value if isinstance(value, tuple) else ()


def _other_gates(model: CanonicalModel, layer: Layer) -> bool:
    """Whether a gate has an activation other than the default."""
    given = LayerView(model, layer).activations()
    usual = tuple(name.lower() for name in GATE_ACTIVATIONS[layer.op])
    return given not in (usual, 2 * usual)


def _two_activations(model: CanonicalModel, layer: Layer) -> bool:
    """Whether the two directions have different activations."""
    return len(set(LayerView(model, layer).activations())) > 1


def _gives(outputs: tuple[str, ...], position: int) -> bool:
    return len(outputs) > position and bool(outputs[position])


def _by_average(layer: Layer) -> bool:
    """Whether the evaluator treats a MaxPool like an AveragePool."""
    return {*_numbers(layer, "strides"), *_numbers(layer, "dilations")} <= {1}


def _uneven_pads(model: CanonicalModel, layer: Layer) -> bool:
    pads = _numbers(layer, "pads")
    half = len(pads) // 2
    uneven = pads[:half] != pads[half:] or (half == 1 and any(pads))
    return _by_average(layer) and uneven


def _capped_scores(model: CanonicalModel, layer: Layer) -> bool:
    first = not layer.attributes.get("qk_matmul_output_mode")
    return _gives(layer.outputs, _SCORES) and first and bool(layer.attributes.get("softcap"))


def _cubic_border(model: CanonicalModel, layer: Layer) -> bool:
    modes = layer.attributes.get("mode"), layer.attributes.get("padding_mode")
    return modes == ("cubic", "border")


def _batch_for_channels(model: CanonicalModel, layer: Layer) -> bool:
    sizes = model.tensors[layer.inputs[0]].sizes
    return sizes[:1] != sizes[1:2]


DEFECTS = (
    Defect(_RECURRENT, _set("clip"), "clip is ignored"),
    Defect(_RECURRENT, lambda m, layer: _gives(layer.inputs, _LENGTHS), "sequence_lens is ignored"),
    Defect(("GRU", "LSTM"), _other_gates, "activations are ignored"),
    Defect(("LSTM",), _set("input_forget"), "input_forget is ignored"),
    Defect(("RNN",), _two_activations, "both directions get the first one's activation"),
    Defect(("MaxPool",), _uneven_pads, "pads that differ between the ends of an axis are mixed up"),
    Defect(
        ("MaxPool",),
        lambda m, layer: _by_average(layer) and _gives(layer.outputs, _INDICES),
        "the indices are wrong where all strides are 1",
    ),
    Defect(("LpPool",), _set("ceil_mode"), "windows beyond the edge count as full"),
    Defect(
        ("LpNormalization",),
        lambda m, layer: layer.attributes.get("p") == 1,
        "p=1 adds up signed values",
    ),
    Defect(("LRN",), _batch_for_channels, "it goes through batches instead of channels"),
    Defect(("Attention",), _capped_scores, "scores of mode 0 are softcapped"),
    Defect(("GridSample",), _cubic_border, "coordinates are clamped before cubic interpolation"),
)
