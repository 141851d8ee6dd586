"""Layouts that MXNet finds in a few repeated blocks, expanded, are those of all blocks."""

from __future__ import annotations

from functools import partial

from dlbricks_decoders.onnx_files import DecoderShape, write_decoder
from dlbricks_mxnet.rewrite import rewrite, with_layouts
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.analysis.shortening import NotRepeatedError, rewritten_short, same_structure
from dlbricks_core.backends import BackendSettings
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

WINDOW = {"auto_pad": "NOTSET", "dilations": (1, 1), "group": 1, "kernel_shape": (3, 3),
          "pads": (1, 1, 1, 1), "strides": (1, 1)}  # fmt: skip


def check_both_ways(model, rewriting):
    whole, short = rewriting(model), rewritten_short(model, rewriting)
    assert same_structure(whole, short)
    assert [each.outputs for each in short.layers] == [each.outputs for each in whole.layers]
    assert short.tensors == whole.tensors


def network(block: str, copies: int, channels: int = 16) -> CanonicalModel:
    spec = TensorSpec("float32", (1, channels, 8, 8))
    tensors, weights, layers, last = {"x": spec}, set(), [], "x"

    def add(op, *inputs, **attributes):
        name = f"t{len(layers)}"
        layers.append(Layer(op, inputs, (name,), attributes, name=f"{op}_{name}"))
        tensors[name] = spec
        return name

    for text in ("CR", *[block] * copies, "CS"):
        begin = last
        for letter in text:
            if letter == "C":
                weight, bias = f"w{len(weights)}", f"w{len(weights) + 1}"
                weights |= {weight, bias}
                tensors[weight] = TensorSpec("float32", (channels, channels, 3, 3))
                tensors[bias] = TensorSpec("float32", (channels,))
                last = add("Conv", last, weight, bias, **WINDOW)
            elif letter == "+":
                last = add("Add", last, begin)
            else:
                last = add({"R": "Relu", "S": "Softplus", "T": "Tanh"}[letter], last)
    return CanonicalModel(
        "network", tuple(layers), ("x",), (last,), tensors, frozenset(weights), {}, {"": 21}
    )


def test_layouts_of_convolutions_are_the_same_in_both_ways():
    rewriting = partial(rewrite, settings=BackendSettings(1))
    check_both_ways(network("CRC+R", 8), rewriting)


def test_a_decoder_is_rewritten_the_same_in_both_ways(tmp_path):
    path = write_decoder(tmp_path, DecoderShape(blocks=9))
    dims = {"batch": 1, "sequence": 1, "past": 8}
    model = canonical(OnnxImporter().load(path), LoadOptions(dims=dims)).model
    check_both_ways(model, partial(rewrite, settings=BackendSettings(1)))


@given(block=st.text("CRST+", min_size=2, max_size=6), copies=st.integers(6, 9))
@settings(max_examples=40)
def test_any_repeating_network_has_the_same_layouts_in_both_ways(block, copies):
    """Layouts that convolutions leave are given here: nothing runs."""
    try:
        check_both_ways(network(block, copies), lambda m: with_layouts(m, lambda *_: "blocked"))
    except NotRepeatedError:
        return  # then the whole model is asked of
