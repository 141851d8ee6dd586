"""Values that are equal: PyTorch's order of them is another than that of ONNX."""

import onnx
from dlbricks_compare.verification import verify

from dlbricks_core.ir import read_model
from dlbricks_core.measure.request import Request
from dlbricks_core.passes import normalize

MODEL = """<ir_version: 10, opset_import: ["" : 21]> g (float[4,64] x) => (float[4,5] places)
    <int64[1] k = {5}>
    { s = Sign(x) v, i = TopK(s, k) places = Cast<to=1>(i) }"""


def test_outputs_that_differ_behind_an_order_have_a_remark_on_equal_values():
    model = normalize(read_model(onnx.parser.parse_model(MODEL), name="order"))
    (verdict,) = verify([model], [Request.of("pytorch", threads=1)])
    assert not verdict.agrees
    assert verdict.remarks == (
        "places follows from the order of values (TopK): of equal values, each framework may take "
        "another first",
    )
