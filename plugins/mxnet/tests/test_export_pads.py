"""A marked pad and its convolution are one ONNX layer that computes what MXNet does."""

import numpy as np
import onnxruntime as ort
import pytest
from dlbricks_mxnet.export import export, fill
from dlbricks_mxnet.export_pads import PART_OF_CONVOLUTION, merge_pads
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import from_symbol, trace

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import TensorSpec
from dlbricks_core.passes import normalize

mx = import_mxnet()

SIZE = (1, 3, 10, 12)


class Padded(mx.gluon.HybridBlock):
    def __init__(self, widths, *, marked=True, **window):
        super().__init__()
        self.widths, self.marked = widths, marked
        self.conv = mx.gluon.nn.Conv2D(4, 3, **window)

    def hybrid_forward(self, F, x):
        with mx.AttrScope(**(PART_OF_CONVOLUTION if self.marked else {})):
            x = F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, *self.widths))
        return self.conv(x)


def layers(block):
    symbol, params = trace(block, {"data": SIZE})
    return normalize(from_symbol(symbol, params, {"data": SIZE})).layers


@pytest.mark.parametrize("strides", [1, 2, 3])
@pytest.mark.parametrize("widths", [(0, 2, 0, 2), (3, 1, 0, 4), (2, 0, 1, 1)])
def test_one_layer_that_computes_the_same(widths, strides):
    block = Padded(widths, strides=strides)
    block.initialize(mx.init.Xavier(magnitude=3))
    data = np.random.default_rng(1).uniform(-1, 1, SIZE).astype(np.float32)
    wanted = block(mx.nd.array(data)).asnumpy()
    symbol, params = trace(block, {"data": SIZE})
    proto = export(merge_pads(symbol), {"data": TensorSpec("float32", SIZE)}, params)
    values = {key: p.data().asnumpy() for key, p in block.collect_params().items()}
    session = ort.InferenceSession(fill(proto, values).SerializeToString())
    np.testing.assert_allclose(session.run(None, {"data": data})[0], wanted, rtol=0, atol=1e-5)
    (layer,) = layers(block)
    top, bottom, left, right = widths
    assert layer.op == "Conv"
    assert layer.attributes["pads"] == (top, left, bottom, right)


def test_without_the_mark_both_stay():
    assert [layer.op for layer in layers(Padded((0, 2, 0, 2), marked=False))] == ["Pad", "Conv"]


@pytest.mark.parametrize(
    ("widths", "window"),
    [((0, 1, 0, 1), {}), ((0, 2, 0, 2), {"padding": 1})],
    ids=["odd", "padded"],
)
def test_what_mxnet_could_not_infer_is_refused(widths, window):
    with pytest.raises(ModelError, match="cannot be part of"):
        layers(Padded(widths, **window))


def test_only_a_convolution_can_take_it():
    with mx.AttrScope(**PART_OF_CONVOLUTION):
        pad = mx.sym.pad(mx.sym.var("data"), mode="constant", pad_width=(0, 0, 0, 0, 0, 2, 0, 2))
    with pytest.raises(ModelError, match="cannot be part of"):
        from_symbol(mx.sym.relu(pad), {}, {"data": SIZE})
