"""Conversions to integers have the structure that ONNX Runtime's quantizers write."""

from __future__ import annotations

import logging
from collections import Counter

import numpy as np
import onnx
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from exported import Writer, classifier, decoder, encoder, floats, integers
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import conversion
from dlbricks_core.values import materialize

logging.getLogger("onnxruntime").setLevel(logging.ERROR)

TOKEN = {"sequence_length": 1, "past_sequence_length": 6, "total_sequence_length": 7}


def odds():
    """Products that quantizers treat in different ways."""
    w = Writer(3)
    w.add("Gemm", ["x", w.weight("w", 8, 16), w.weight("b", 8)], ["turned"], transB=1)
    w.add("Gemm", ["x", w.weight("d", 16, 16)], ["scaled"], alpha=0.5)
    w.add("MatMul", ["x", w.weight("batch", 3, 16, 4)], ["batches"])
    w.add("MatMul", ["x", "d"], ["again"])
    w.add("MatMul", ["x", w.weight("v", 16)], ["vector"])
    w.add("MatMul", [w.weight("left", 4, 5), "x"], ["weight_first"])
    w.add("MatMul", ["x", w.weight("uneven", 16, 7)], ["seven"])
    w.add("MatMul", ["x", "z"], ["activations"])
    w.add("Gather", [w.weight("table", 20, 8), "index"], ["rows"])
    return w.model(
        [floats("x", 5, 16), floats("z", 16, 3), integers("index", 4)],
        [floats("turned", 5, 8), floats("scaled", 5, 16), floats("batches", 3, 5, 4),
         floats("again", 5, 16), floats("vector", 5), floats("weight_first", 4, 16),
         floats("seven", 5, 7), floats("activations", 5, 3), floats("rows", 4, 8)],
    )  # fmt: skip


FILES = {
    "decoder": (decoder, TOKEN),
    "encoder": (encoder, {"sequence_length": 8}),
    "odds": (odds, {}),
    "classifier": (classifier, {}),
}


def canonical(proto, dims):
    return normalize(read_model(proto, name="given"), batch=1, dims=dims)


def by_quantize_dynamic(proto, folder):
    onnx.save(proto, folder / "given.onnx")
    quantize_dynamic(
        folder / "given.onnx",
        folder / "made.onnx",
        op_types_to_quantize=["MatMul", "Gemm", "Gather"],  # all but convolutions
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    return onnx.load(folder / "made.onnx")


def by_nbits(proto, folder):
    quantizer = MatMulNBitsQuantizer(
        proto, bits=4, block_size=32, is_symmetric=True, accuracy_level=4
    )
    quantizer.process()
    return quantizer.model.model


QUANTIZERS = {"int8": by_quantize_dynamic, "int4": by_nbits}


def operators(model):
    return Counter(layer.qualified_op for layer in model.layers)


def weights(model):
    return Counter(str(model.tensors[name]) for name in model.weights)


def products(model):
    """Operator, attributes and types of every quantized product."""
    return Counter(
        (layer.op, tuple(sorted(layer.attributes.items())),
         tuple(map(str, model.specs(layer.inputs))))
        for layer in model.layers
        if layer.op in ("MatMulInteger", "MatMulNBits", "DynamicQuantizeLinear")
    )  # fmt: skip


@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("file", FILES)
def test_a_conversion_writes_what_the_quantizer_does(name, file, tmp_path):
    make, dims = FILES[file]
    converted = conversion(name)(canonical(make(), dims))
    quantized = canonical(QUANTIZERS[name](make(), tmp_path), dims)
    assert operators(converted) == operators(quantized)
    assert weights(converted) == weights(quantized)
    assert products(converted) == products(quantized)


@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("file", FILES)
def test_a_converted_model_keeps_its_ends_and_the_magnitude_of_its_results(name, file):
    make, dims = FILES[file]
    model = canonical(make(), dims)
    converted = conversion(name)(model)
    assert (converted.inputs, converted.outputs) == (model.inputs, model.outputs)
    assert all(converted.tensors[n] == model.tensors[n] for n in model.outputs)
    assert OnnxruntimeBackend().check(converted) == {}
    timer = OnnxruntimeTimer(BackendSettings(1, {}))
    spread = []
    for each in (model, converted):
        loaded = timer.load(materialize(each))
        timer.run(loaded)
        results = {n: np.array(v) for n, v in timer.outputs(loaded).items()}
        timer.unload(loaded)
        spread.append({n: float(v.std()) for n, v in results.items()})
    for output, before in spread[0].items():
        if output != "rows":  # a table has no depth
            assert 0.2 < (spread[1][output] + 1e-3) / (before + 1e-3) < 5


@pytest.mark.parametrize("name", QUANTIZERS)
def test_a_converted_model_is_canonical_and_converts_to_itself(name):
    converted = conversion(name)(canonical(decoder(), TOKEN))
    again = conversion(name)(converted)
    assert again.layers == converted.layers
    assert normalize(converted.as_raw()).layers == converted.layers
