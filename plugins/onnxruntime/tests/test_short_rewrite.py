"""What ONNX Runtime makes of a few repeated blocks, expanded, is what it makes of all."""

from __future__ import annotations

from functools import partial

import pytest
from dlbricks_decoders.onnx_files import DecoderShape, write_decoder
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.analysis.shortening import NotRepeatedError, rewritten_short, same_structure
from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

pytest.importorskip("onnxruntime")

from dlbricks_onnxruntime.rewrite import rewrite

REWRITING = partial(rewrite, settings=BackendSettings(1), seed=0)


def check_both_ways(model: CanonicalModel) -> None:
    whole, short = REWRITING(model), rewritten_short(model, REWRITING)
    assert same_structure(whole, short)
    assert (short.inputs, short.outputs) == (whole.inputs, whole.outputs)
    for one, two in zip(whole.layers, short.layers, strict=True):
        for a, b in zip(one.outputs, two.outputs, strict=True):
            assert a == b or not {a, b} & model.tensors.keys()
    for strategy, most in (("chain", 1), ("segments", 128)):
        cuts = [BrickSet.of([model], most, strategy, {0: each}) for each in (whole, short)]
        assert cuts[0].models[0].counts == cuts[1].models[0].counts


@pytest.mark.parametrize(
    "dims",
    [{"sequence": 1, "past": 16}, {"sequence": 8, "past": 0}, {"sequence": 4, "past": 16}],
    ids=str,
)
def test_a_decoder_is_rewritten_the_same_in_both_ways(tmp_path, dims):
    path = write_decoder(tmp_path, DecoderShape(blocks=9, hidden=256))
    options = LoadOptions(dims={"batch": 1, **dims})
    check_both_ways(canonical(OnnxImporter().load(path), options).model)


def network(stages: list[tuple[str, int]]) -> CanonicalModel:
    """Stages of equal blocks of convolutions; a block is a text with a letter for each layer."""
    spec = TensorSpec("float32", (1, 32, 8, 8))
    tensors, weights = {"x": spec}, set()
    layers: list[Layer] = []
    last = "x"

    def add(op: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(layers)}"
        layers.append(Layer(op, inputs, (name,), attributes, name=f"{op}_{name}"))
        tensors[name] = spec
        return name

    def weight(*sizes: int) -> str:
        weights.add(name := f"w{len(weights)}")
        tensors[name] = TensorSpec("float32", sizes)
        return name

    window = {"auto_pad": "NOTSET", "dilations": (1, 1), "group": 1, "kernel_shape": (3, 3),
              "pads": (1, 1, 1, 1), "strides": (1, 1)}  # fmt: skip
    for block, copies in stages:
        for _ in range(copies):
            begin = last
            for letter in block:
                if letter == "C":
                    last = add("Conv", last, weight(32, 32, 3, 3), weight(32), **window)
                elif letter == "+":
                    last = add("Add", last, begin)
                else:
                    last = add({"R": "Relu", "S": "Sigmoid", "T": "Tanh"}[letter], last)
    return CanonicalModel(
        "network", tuple(layers), ("x",), (last,), tensors, frozenset(weights), {}, {"": 21}
    )


@pytest.mark.parametrize("stages", [[("CRC+R", 8)], [("CSC+", 7), ("CRT", 9)], [("CRCR", 8)]])
def test_a_network_of_convolutions_is_rewritten_the_same_in_both_ways(stages):
    check_both_ways(network([("CR", 1), *stages, ("CS", 1)]))


@given(block=st.text("CRST+", min_size=2, max_size=5), copies=st.integers(6, 9))
@settings(max_examples=8)
def test_any_repeating_network_is_rewritten_the_same_in_both_ways(block, copies):
    model = network([("CR", 1), (block, copies), ("C", 1)])
    try:
        check_both_ways(model)
    except NotRepeatedError:
        return  # then the whole model is asked of
