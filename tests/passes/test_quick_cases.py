"""Poolings that tests compute quickly for cases of the onnx package are the package's own."""

import numpy as np
import pytest
from onnx.reference.ops.op_pool_common import get_output_shape_explicit_padding

#: Sizes of the input, kernel, strides, pads and dilations.
POOLINGS = {
    "line": ((2, 3, 9), [4], [2], None, None),
    "plane": ((2, 2, 7, 8), [3, 2], [1, 2], [1, 0, 1, 1], [2, 1]),
    "volume": ((1, 2, 5, 6, 4), [2, 3, 2], [2, 1, 1], [0, 1, 0, 0, 1, 1], None),
}


@pytest.mark.parametrize("kind", ["AVG", "MAX", "LPPOOL"])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("name", POOLINGS)
def test_poolings_of_all_windows_are_those_of_each(operator_cases, kind, counted, name):
    sizes, kernel, strides, pads, dilations = POOLINGS[name]
    values = np.random.default_rng(3).normal(size=sizes).astype(np.float32)
    shape, required = get_output_shape_explicit_padding(
        pads, sizes[2:], kernel, strides, dilations, ceil_mode=True
    )
    rank = len(kernel)
    around = [(0, 0), (0, 0), *((required[i], required[rank + i]) for i in range(rank))]
    padded = np.pad(values, around, constant_values=0 if counted else np.nan)
    call = padded, sizes, kernel, strides, shape, kind, required, pads, dilations, counted, 3
    found, wanted = operator_cases.pool(*call), operator_cases.window_by_window(*call)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert np.unique(wanted).size > 4
