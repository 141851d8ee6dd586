"""Tiles of large convolutions: which layers have them, and that a line through them is right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from dlbricks_core.analysis import layer_flops
from dlbricks_core.analysis.tiles import INTENSITY, TILE_FLOPS, TILE_ROWS, tiles
from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import to_onnx
from dlbricks_core.values import materialize


@pytest.fixture(scope="session")
def convolution(chain_of):
    """A convolution and the layers around it as one brick."""
    return lambda *args, **kwargs: only(chain_of(*args, **kwargs))


def only(model):
    (brick,) = BrickSet.of([model], granularity=9).bricks.values()
    return brick


def operations(model):
    return sum(layer_flops(model, layer) or 0 for layer in model.layers)


def test_a_large_convolution_is_cut_into_two_parts_with_few_rows(convolution):
    brick = convolution(512, 512, 80, pad=0)
    small, large = tiles(brick)
    for tile in (small, large):
        (layer,) = tile.brick.model.layers
        assert layer.attributes["pads"] == (0, 0, 0, 0)
        assert tile.brick.model.tensors[layer.inputs[0]].sizes[1::2] == (512, 80)
        assert tile.brick.signature != brick.signature
    assert small.brick.model.tensors["t0"].sizes == (1, 512, 1, 78)
    assert large.brick.model.tensors["t0"].sizes == (1, 512, TILE_ROWS, 78)
    # 78 rows of the whole are those 4 and 74 more, of which the two differ by 3.
    assert (small.weight, large.weight) == pytest.approx((-74 / 3, 1 + 74 / 3))


@given(
    inputs=st.integers(128, 700),
    outputs=st.integers(128, 700),
    rows=st.integers(30, 400),
    size=st.sampled_from([2, 3, 5, 7]),
    dilation=st.integers(1, 4),
    pad=st.integers(0, 2),
)
def test_a_line_through_both_tiles_predicts_the_whole(
    convolution, inputs, outputs, rows, size, dilation, pad
):
    brick = convolution(inputs, outputs, rows, 80, size, dilation, pad, after=["Relu"])
    found = tiles(brick)
    if not found:
        return
    small, large = found
    whole = operations(brick.model)
    assert operations(large.brick.model) >= max(TILE_FLOPS, 0.9 * whole * TILE_ROWS / rows)
    assert 3 * sum(operations(tile.brick.model) for tile in found) <= whole
    # The part that does not depend on rows counts once.
    assert small.weight + large.weight == pytest.approx(1)
    told = sum(tile.weight * operations(tile.brick.model) for tile in found)
    assert whole * 0.974 <= told <= whole * (1 + 1e-9)  # half of the padding is left out
    if not pad:
        assert told == pytest.approx(whole)


def test_a_tile_computes_rows_of_the_whole(convolution):
    """Rows in the middle, where the whole sees no padding."""
    brick = convolution(640, 640, 40, columns=24, after=["Relu"])
    _, tile = (each.brick for each in tiles(brick))
    network = materialize(brick.model, seed=1)
    (image,), (weight,) = network.inputs.values(), network.weights.values()
    (rows,) = {tile.model.tensors[n].sizes[2] for n in tile.model.inputs}
    whole, part = (
        ReferenceEvaluator(to_onnx(model, {"w0": weight})).run(None, {"x0": fed})[0]
        for model, fed in ((brick.model, image), (tile.model, image[:, :, 10 : 10 + rows]))
    )
    np.testing.assert_allclose(part, whole[:, :, 11 : 9 + rows], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "arguments",
    [
        {"inputs": 512, "outputs": 512, "rows": 20, "columns": 20},
        {"inputs": 64, "outputs": 64, "rows": 900},
        {"inputs": 2048, "outputs": 2048, "rows": 200, "size": 1},
        {"inputs": 512, "outputs": 512, "rows": 96, "op": "ConvTranspose", "pad": 1},
        {"inputs": 1024, "outputs": 512, "rows": 63, "dilation": 12},
    ],
    ids=["small", "moves more than it computes", "a product", "transposed", "mostly padding"],
)
def test_layers_that_tiles_say_nothing_about_have_none(convolution, arguments):
    brick = convolution(**arguments)
    assert tiles(brick) == ()


def test_convolutions_on_large_maps_need_enough_operations_for_tiles(convolution):
    """Each pair of elements, 8 bytes, costs 2 * 9 * channels operations."""
    assert 18 * 192 / 8 < INTENSITY < 18 * 256 / 8
    assert tiles(convolution(192, 192, 500)) == ()
    assert len(tiles(convolution(256, 256, 500))) == 2


def test_chains_are_cut_as_single_layers_are(convolution):
    brick = convolution(512, 512, 90, before=["Relu"], after=["Relu", "Sigmoid"])
    for tile in tiles(brick):
        shapes = {tile.brick.model.tensors[layer.outputs[0]].sizes[2:]
                  for layer in tile.brick.model.layers[1:]}  # fmt: skip
        assert len(shapes) == 1
        assert tile.brick.operators == ("Relu", "Conv", "Relu", "Sigmoid")


def test_layers_that_do_not_fit_fewer_rows_leave_a_chain_whole(convolution):
    assert tiles(convolution(512, 512, 90))
    assert tiles(convolution(512, 512, 90, after=["Reshape"])) == ()


def test_opaque_and_fused_layers_have_no_tiles(convolution):
    brick = convolution(512, 512, 96, after=["Relu"])
    assert tiles(brick)
    first, last = brick.model.layers
    opaque = (first, replace(last, opaque="a subgraph"))
    for model in (
        replace(brick.model, annotations={"native_to": "onnxruntime"}),
        replace(brick.model, layers=opaque),
    ):
        assert tiles(replace(brick, model=model)) == ()


def test_a_chain_that_reads_two_maps_has_no_tiles(convolution):
    """It is not known which rows of the other map belong to a tile."""
    brick = convolution(512, 512, 96, after=["Relu"])
    first, last = brick.model.layers
    added = replace(last, op="Add", inputs=(*last.inputs, "other"))
    tensors = {**brick.model.tensors, "other": brick.model.tensors[last.outputs[0]]}
    model = replace(brick.model, layers=(first, added), tensors=tensors)
    assert tiles(replace(brick, model=replace(model, inputs=(*model.inputs, "other")))) == ()
