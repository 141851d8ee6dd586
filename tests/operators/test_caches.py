"""Caches with room, which are the same memory before and after attention."""

import onnx.parser

from dlbricks_core.backends import Traits
from dlbricks_core.ir import read_model
from dlbricks_core.measure.footprint import Footprint
from dlbricks_core.operators.table import caches_with_room
from dlbricks_core.passes import normalize


def grouped(cached, total):
    """Attention of one new token to a cache of so many places, of which so many are in use."""
    text = (
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g (float[1,1,64] q,'
        f" float[1,1,{cached},16] past_key, float[1,1,{cached},16] past_value, int32[1] s) =>"
        " (float[1,1,32] y, float[1,1,p,16] present_key, float[1,1,p,16] present_value)"
        f' {{ t = Constant<value = int32 {{{total}}}>() y, present_key, present_value ='
        ' com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>'
        '(q, "", "", past_key, past_value, s, t) }'
    )  # fmt: skip
    return normalize(read_model(onnx.parser.parse_model(text), name="m"))


def test_a_cache_with_room_is_one_buffer():
    assert caches_with_room(grouped(7, 7)) == {
        "present_key": "past_key", "present_value": "past_value"
    }  # fmt: skip
    assert caches_with_room(grouped(6, 7)) == {}


def test_a_cache_with_room_counts_once_and_by_its_tokens():
    roomy, growing = (Footprint.of(grouped(n, 7), Traits(), 1 << 30) for n in (7, 6))
    token = 2 * 16 * 4
    assert roomy.cache_bytes == 7 * token
    assert growing.cache_bytes == 13 * token
    assert roomy.token_bytes == growing.token_bytes == token
    assert roomy.live_bytes == growing.live_bytes
