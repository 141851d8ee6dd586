"""Copies of a network in one network."""

import pytest
from dlbricks_quantities.liveness import live_bytes_by_layer, side_by_side

from dlbricks_core.bricks import split
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, to_onnx
from dlbricks_core.values import materialize

onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_copies_share_nothing_and_are_a_valid_network(residual, copies):
    one = residual()
    several = side_by_side(one, copies)
    assert len(several.layers) == copies * len(one.layers)
    assert several.weight_bytes == copies * one.weight_bytes
    assert len(set(several.outputs)) == copies * len(one.outputs)
    for layer, of in zip(several.layers, one.layers * copies, strict=True):
        assert (layer.op, layer.attributes) == (of.op, of.attributes)
        reads = [several.producers[name] for name in layer.reads if name in several.producers]
        begin = several.producers[layer.outputs[0]] // len(one.layers) * len(one.layers)
        assert all(begin <= index < begin + len(one.layers) for index in reads)
    onnx.checker.check_model(to_onnx(several, materialize(several).weights))


def test_copies_have_other_weights_and_stay_apart_when_cut(residual):
    several = side_by_side(residual(), 2)
    weights = materialize(several).weights
    first, second = (sorted(n for n in weights if n.startswith(each)) for each in ("c0_", "c1_"))
    assert len(first) == len(second) > 0
    assert all((weights[a] != weights[b]).any() for a, b in zip(first, second, strict=True))
    assert sum(len(each) for each in split(several, 99)) == len(several.layers)


def test_a_copy_runs_beside_what_the_others_hold(residual):
    one = residual()
    alone, both = max(live_bytes_by_layer(one)), max(live_bytes_by_layer(side_by_side(one, 2)))
    ends = sum(one.tensors[name].nbytes for name in (*one.inputs, *one.outputs))
    assert both == alone + ends


def test_what_layers_capture_belongs_to_their_copy():
    spec = TensorSpec("float32", (3,))
    branch = Layer("If", ("x",), ("y",), captures=("w",))
    one = CanonicalModel("one", (branch,), ("x",), ("y",), dict.fromkeys("xyw", spec), {"w"})
    captured = [layer.captures for layer in side_by_side(one, 2).layers]
    assert captured == [("c0_w",), ("c1_w",)]
