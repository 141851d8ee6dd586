"""Data of large weights are left out of a model before it is parsed."""

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.onnx import OnnxImporter, read_proto
from dlbricks_core.ir.lean import without_weights
from dlbricks_core.ir.limits import SMALL_FILE_BYTES


class Watched(bytes):
    """Bytes that note the longest part that was read."""

    longest = 0

    def __getitem__(self, place):
        found = super().__getitem__(place)
        if isinstance(place, slice):
            self.longest = max(self.longest, len(found))
        return found


def model(*weights):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 2000)) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


LARGE = np.arange(4_000_000, dtype=np.float32).reshape(2000, 2000)


@pytest.mark.long
@pytest.mark.parametrize("typed", [False, True])
def test_large_weights_are_not_read(typed):
    weight = (
        helper.make_tensor("w", TensorProto.FLOAT, LARGE.shape, LARGE.ravel())
        if typed
        else numpy_helper.from_array(LARGE, "w")
    )
    small = numpy_helper.from_array(np.arange(4096, dtype=np.int64), "small")
    raw = Watched(model(weight, small).SerializeToString())
    lean = onnx.ModelProto.FromString(without_weights(raw))
    assert raw.longest < 40_000
    large, kept = lean.graph.initializer
    assert (large.name, *large.dims) == ("w", 2000, 2000)
    assert not large.raw_data
    assert not large.float_data
    assert numpy_helper.to_array(kept).tolist() == list(range(4096))


def test_data_that_do_not_fit_are_still_refused(tmp_path):
    weight = numpy_helper.from_array(LARGE, "w")
    weight.raw_data = weight.raw_data[:-4]
    path = tmp_path / "a.onnx"
    path.write_bytes(model(weight).SerializeToString())
    assert path.stat().st_size > SMALL_FILE_BYTES
    with pytest.raises(ModelError, match="its data have"):
        OnnxImporter().load(path)


def test_a_large_file_gives_the_same_model(tmp_path):
    path = tmp_path / "a.onnx"
    whole = model(numpy_helper.from_array(LARGE, "w"))
    path.write_bytes(whole.SerializeToString())
    whole.graph.initializer[0].ClearField("raw_data")
    assert read_proto(path) == whole


@given(st.binary(max_size=200), st.integers(0, 5000))
def test_damaged_bytes_stay(noise, place):
    weight = numpy_helper.from_array(np.zeros(5000, np.int8), "w")
    raw = bytearray(model(weight).SerializeToString())
    raw[place : place + len(noise)] = noise
    lean = without_weights(bytes(raw))
    try:
        whole = onnx.ModelProto.FromString(bytes(raw))
    except DecodeError:
        return
    found = onnx.ModelProto.FromString(lean)
    assert len(found.graph.initializer) == len(whole.graph.initializer)
