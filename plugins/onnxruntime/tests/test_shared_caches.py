"""The cache of a decoder is one buffer before and after attention, where it has room."""

import numpy as np
import onnx.parser
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.timer import OnnxruntimeTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


def attention(batch, steps, cached, total):
    """Attention of new tokens to a cache of so many places."""
    cache = f"float[{batch},1,{cached},16]"
    text = (
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g'
        f" (float[{batch},{steps},64] q, {cache} past_key, {cache} past_value, int32[{batch}] s) =>"
        f" (float[{batch},{steps},32] y, float[{batch},1,p,16] present_key,"
        f" float[{batch},1,p,16] present_value)"
        f" {{ t = Constant<value = int32 {{{total}}}>() y, present_key, present_value ="
        " com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>"
        '(q, "", "", past_key, past_value, s, t) }'
    )
    return normalize(read_model(onnx.parser.parse_model(text), name="m"))


@pytest.mark.parametrize(("cached", "shared"), [(7, True), (6, False)])
def test_a_cache_with_room_is_not_copied(cached, shared, monkeypatch):
    ends = {f"{when}_{part}" for when in ("past", "present") for part in ("key", "value")}
    monkeypatch.setattr("dlbricks_onnxruntime.timer.cold_tensors", lambda model: frozenset(ends))
    timer = OnnxruntimeTimer(SETTINGS)
    network = materialize(attention(1, 1, cached, 7))
    loaded = timer.load(network)
    copy = timer.load_copy(network, loaded, private_cache_bytes=0)
    for each in loaded, copy:
        before, after = (each.arrays[f"{name}_key"] for name in ("past", "present"))
        assert np.shares_memory(before, after) is shared
    timer.run(loaded)
    first = timer.outputs(loaded)
    timer.warm_io(loaded)
    timer.run(loaded)
    for name, value in timer.outputs(loaded).items():
        np.testing.assert_array_equal(value, first[name])


def test_several_texts_begin_with_a_cache_that_has_room_alone():
    check = OnnxruntimeBackend().check
    assert check(attention(2, 3, 3, 3)) == {}
    assert list(check(attention(2, 3, 5, 5))) == [0]
