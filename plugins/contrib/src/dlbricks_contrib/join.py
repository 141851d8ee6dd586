"""Products with weights of four bits in the place of the layers that widen such weights."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_contrib.domain import DOMAIN
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

LEAST_BLOCK = 16
"""Minimum codes with one scale, of a power of two, that ONNX Runtime joins."""

_CODES = ("int4", "uint4")


def joined(model: CanonicalModel) -> CanonicalModel:
    """The model with a MatMulNBits in the place of each product that alone reads widened codes.

    ONNX Runtime makes it, too: it never writes the weights as floats.

    Args:
        model: Model in canonical form.
    """
    layers, tensors = list(model.layers), dict(model.tensors)
    gone: set[int] = set()
    weights = set(model.weights)
    for index, layer in enumerate(model.layers):
        wide = layer.inputs[1] if layer.op == "MatMul" and not layer.domain else ""
        maker = model.producers.get(wide)
        block = _block(model, model.layers[maker], index) if maker is not None else 0
        if maker is None or not block:
            continue
        codes, scales, *zero = model.layers[maker].inputs
        depth, columns = model.tensors[codes].sizes
        packed = f"{codes}.packed"
        tensors[packed] = TensorSpec("uint8", (columns, depth // block, block // 2))
        weights.add(packed)
        attributes = {"K": depth, "N": columns, "bits": 4, "block_size": block}
        inputs = (layer.inputs[0], packed, scales, *zero)
        layers[index] = Layer("MatMulNBits", inputs, layer.outputs, attributes, DOMAIN)
        gone.add(maker)
    if not gone:
        return model
    left = tuple(layer for index, layer in enumerate(layers) if index not in gone)
    read = {name for layer in left for name in layer.reads} | model.output_names
    return replace(
        model,
        layers=left,
        tensors=tensors,
        weights=frozenset(weights & read),
        constants={name: value for name, value in model.constants.items() if name in read},
        opsets={DOMAIN: 1, **model.opsets},
    )


def _block(model: CanonicalModel, maker: Layer, reader: int) -> int:
    """Rows with one scale, where a layer widens a matrix of codes for one product; 0 elsewhere."""
    if maker.op != "DequantizeLinear" or maker.inputs[0] not in model.weights:
        return 0
    codes, block = model.tensors[maker.inputs[0]], maker.attributes.get("block_size")
    if not isinstance(block, int) or block < LEAST_BLOCK or block.bit_count() != 1:
        return 0
    fits = (
        (codes.dtype in _CODES and codes.rank == 2 and codes.sizes[0] % block == 0)
        and all(name in model.weights for name in maker.inputs if name)
        and maker.attributes.get("axis", 1) == 0
        and list(model.consumers[maker.outputs[0]]) == [reader]
        and maker.outputs[0] not in model.output_names
    )
    return block if fits else 0
