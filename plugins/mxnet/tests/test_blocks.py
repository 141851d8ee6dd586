"""Layouts that oneDNN chooses, and feature maps that are brought into them."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_mxnet.backend import MxnetBackend

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

MxnetBackend().timer(BackendSettings(1))  # imports MXNet with its environment
from dlbricks_mxnet.blocks import laid_out, layout_of_result, made_by, mx  # noqa: E402
from dlbricks_mxnet.layouts import LAST, PLAIN, blocks_of  # noqa: E402

LAYOUTS = (LAST, *(blocks_of(channels) for channels in (4, 8, 16)))


def convolution(op, weight, *, group=1, channels=64):
    tensors = {
        "x": TensorSpec("float32", (1, channels, 8, 8)),
        "w": TensorSpec("float32", weight),
        "y": TensorSpec("float32", (1, 64, 8, 8)),
    }
    layer = Layer(op, ("x", "w"), ("y",), {"group": group})
    return CanonicalModel("one", (layer,), ("x",), ("y",), tensors, frozenset("w"))


def needs_every_layout():
    """Skips a test: oneDNN without AVX-512 knows blocks of 8 channels, and no other layout."""
    if made_by(convolution("Conv", (64, 64, 1, 1)), 0) == blocks_of(8):
        pytest.skip("oneDNN keeps no other number of channels than 8 together on this processor")


@pytest.mark.parametrize("shape", [(1, 48, 6, 7), (2, 136, 5, 5)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_map_in_another_layout_has_the_same_values(shape, layout):
    if layout != blocks_of(8):
        needs_every_layout()
    if shape[1] % 16 and layout == blocks_of(16):
        pytest.skip("whole blocks only")
    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    array = laid_out(mx.nd.array(values), layout)
    assert (array.asnumpy() == values).all()

    def added(out):
        mx.nd.elemwise_add(array, array, out=out)

    assert layout_of_result(shape, added) == layout


@pytest.mark.parametrize("channels", [8, 16])
def test_one_block_of_all_channels_lies_in_memory_as_the_last_axis_does(channels):
    if channels != 8:
        needs_every_layout()
    values = np.random.default_rng(1).standard_normal((1, channels, 128, 128), np.float32)
    for layout in (LAST, blocks_of(channels)):
        array = laid_out(mx.nd.array(values), layout)
        assert (array.asnumpy() == values).all()

        def added(out, array=array):
            mx.nd.elemwise_add(array, array, out=out)

        assert layout_of_result(values.shape, added) in (LAST, blocks_of(channels))


def test_an_impossible_layout_is_named():
    with pytest.raises(BackendError, match="aBcd5b"):
        laid_out(mx.nd.ones((1, 16, 4, 4)), blocks_of(5))


@pytest.mark.parametrize(
    "model",
    [
        convolution("Conv", (64, 64, 1, 1)),
        convolution("Conv", (64, 1, 1, 1), group=64),
        convolution("Conv", (64, 16, 1, 1), channels=16),
        convolution("ConvTranspose", (64, 64, 1, 1)),
    ],
)
def test_a_convolution_is_asked_for_its_layout(model):
    assert made_by(model, 0) in LAYOUTS


def test_groups_of_four_channels_lie_together():
    needs_every_layout()
    assert made_by(convolution("Conv", (64, 4, 1, 1), group=16), 0) == blocks_of(4)


def test_channels_that_were_filled_up_to_whole_blocks_lie_elsewhere():
    # As 24 channels do where oneDNN keeps 16 together, which it does not on every processor.
    assert layout_of_result((1, 24, 4, 4), lambda out: None) == blocks_of(16)


def test_what_is_computed_may_be_a_weight_too():
    model = convolution("Conv", (64, 64, 1, 1))
    fed = replace(model, inputs=("x", "w"), weights=frozenset())
    assert made_by(fed, 0) == made_by(model, 0)


def test_a_map_of_one_pixel_is_plain():
    model = convolution("Conv", (64, 64, 1, 1))
    one = TensorSpec("float32", (1, 64, 1, 1))
    assert made_by(replace(model, tensors={**model.tensors, "x": one, "y": one}), 0) == PLAIN
