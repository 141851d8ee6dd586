"""Forms of pooling, convolution, padding and resizing that the onnx package ships no case for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_layer import agree, ints, normal, onnxruntime, reference

POOLS = [
    # size, kernel, stride, dilation, begin, end, ceil
    (9, 3, 2, 1, 1, 1, 0),
    (9, 3, 2, 1, 0, 1, 0),
    (9, 3, 2, 1, 1, 0, 0),
    (10, 3, 2, 1, 0, 0, 1),
    (10, 3, 2, 1, 1, 1, 1),
    (10, 2, 3, 1, 0, 1, 1),
    (11, 3, 1, 2, 1, 1, 0),
    (11, 3, 2, 2, 0, 2, 0),
    (12, 3, 3, 1, 2, 2, 0),
]


def pooled(size, kernel, stride, dilation, begin, end, ceil) -> int:
    room = size + begin + end - (kernel - 1) * dilation - 1
    out = (room + (stride - 1 if ceil else 0)) // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= size + begin else out


def pool_attributes(axes, kernel, stride, dilation, begin, end, ceil) -> dict[str, Any]:
    return {
        "kernel_shape": (kernel,) * axes, "strides": (stride,) * axes,
        "dilations": (dilation,) * axes, "pads": (begin,) * axes + (end,) * axes,
        "ceil_mode": ceil,
    }  # fmt: skip


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_max_pool_with_and_without_indices(case, axes):
    out = (2, 3, *(pooled(*case),) * axes)
    x = normal(2, 3, *(case[0],) * axes)
    attributes = pool_attributes(axes, *case[1:])
    agree("MaxPool", [x], [out], **attributes, storage_order=0)
    agree("MaxPool", [x], [out, out], **attributes, storage_order=0)


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("include", [0, 1])
def test_average_pool(case, axes, include):
    if case[6] and case[4] + case[5]:
        pytest.skip("evaluators differ on what a window beyond the end pad averages over")
    out = (2, 3, *(pooled(*case),) * axes)
    x = normal(2, 3, *(case[0],) * axes)
    attributes = pool_attributes(axes, *case[1:])
    agree("AveragePool", [x], [out], **attributes, count_include_pad=include)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(axes, p):
    case = (9, 3, 2, 1, 1, 0, 0)
    out = (2, 3, *(pooled(*case),) * axes)
    agree("LpPool", [normal(2, 3, *(9,) * axes)], [out], **pool_attributes(axes, *case[1:]), p=p)


CONVOLUTIONS = [
    # in, out, groups, kernel, stride, dilation, begin, end
    (4, 6, 1, 3, 1, 1, 1, 1),
    (4, 6, 2, 3, 2, 1, 0, 1),
    (4, 4, 4, 3, 1, 2, 2, 2),
    (4, 6, 1, 1, 2, 1, 0, 0),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_convolution(case, axes, bias):
    cin, cout, groups, kernel, stride, dilation, begin, end = case
    size = (9 + begin + end - (kernel - 1) * dilation - 1) // stride + 1
    inputs = [normal(1, cin, *(9,) * axes), normal(cout, cin // groups, *(kernel,) * axes)]
    inputs += [normal(cout)] * bias
    attributes = pool_attributes(axes, kernel, stride, dilation, begin, end, 0)
    del attributes["ceil_mode"]
    out = (1, cout, *(size,) * axes)
    agree("Conv", inputs, [out], weights=(1, 2)[: 1 + bias], group=groups, **attributes)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("stride", "dilation", "begin", "end", "extra"),
    [(1, 1, 0, 0, 0), (2, 1, 1, 1, 1), (2, 1, 0, 1, 0), (2, 2, 1, 0, 1), (3, 1, 2, 1, 2)],
)
def test_transposed_convolution(axes, bias, stride, dilation, begin, end, extra):
    size = 4 * stride + 2 * dilation + 1 + extra - begin - end
    inputs = [normal(1, 4, *(5,) * axes), normal(4, 3, *(3,) * axes)] + [normal(6)] * bias
    agree(
        "ConvTranspose", inputs, [(1, 6, *(size,) * axes)], weights=(1, 2)[: 1 + bias], group=2,
        kernel_shape=(3,) * axes, strides=(stride,) * axes, dilations=(dilation,) * axes,
        pads=(begin,) * axes + (end,) * axes, output_padding=(extra,) * axes,
        judge=onnxruntime if dilation == 1 or extra < stride else reference,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((5,), (2, 3)),
        ((4, 5), (1, 2, 3, 0)),
        ((2, 3, 6), (0, 0, 2, 0, 0, 4)),
        ((2, 3, 6), (1, 1, 2, 0, 2, 1)),
        ((2, 3, 4, 5), (0, 0, 1, 2, 0, 0, 3, 1)),
        ((2, 3, 4, 5), (1, 0, 1, 2, 0, 2, 3, 1)),
        ((1, 2, 3, 4, 5), (0, 0, 1, 1, 2, 0, 0, 2, 0, 1)),
    ],
)
def test_pad_in_every_mode_along_any_axes(mode, shape, pads):
    rank = len(shape)
    out = tuple(s + pads[i] + pads[rank + i] for i, s in enumerate(shape))
    inputs = [normal(*shape), ints(*pads)]
    if mode == "constant":
        inputs.append(np.float32(1.5).reshape(()))
    parameters = tuple(range(1, len(inputs)))
    agree("Pad", inputs, [out], parameters=parameters, mode=mode)


RESIZES = [(mode, where) for mode in ("nearest", "linear", "cubic")
           for where in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                         "align_corners", "asymmetric")]  # fmt: skip


@pytest.mark.parametrize(("mode", "where"), RESIZES)
@pytest.mark.parametrize("out", [(8, 10), (3, 4), (7, 3), (1, 9), (12, 15)])
@pytest.mark.parametrize("antialias", [0, 1])
def test_resize_to_sizes(mode, where, out, antialias):
    if antialias and mode == "nearest":
        pytest.skip("no such mode")
    x = normal(1, 2, 4, 5)
    sizes = ints(1, 2, *out)
    agree(
        "Resize", [x, None, None, sizes], [(1, 2, *out)], parameters=(3,), judge=reference,
        mode=mode, coordinate_transformation_mode=where, nearest_mode="round_prefer_floor",
        cubic_coeff_a=-0.75, exclude_outside=0, antialias=antialias,
        keep_aspect_ratio_policy="stretch", extrapolation_value=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("where", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("scales", [(2.0, 2.0), (0.6, 1.7), (1.0, 3.0)])
def test_resize_nearest_by_scales(nearest, where, scales):
    out = tuple(int(size * scale) for size, scale in zip((4, 5), scales, strict=True))
    agree(
        "Resize", [normal(1, 2, 4, 5), None, np.array([1, 1, *scales], np.float32)],
        [(1, 2, *out)], parameters=(2,), judge=reference, mode="nearest", nearest_mode=nearest,
        coordinate_transformation_mode=where,
    )  # fmt: skip


def test_common_resizes_are_one_call_of_torch():
    def code(out, **attributes):
        return agree(
            "Resize", [normal(1, 2, 8, 8), None, None, ints(1, 2, *out)], [(1, 2, *out)],
            parameters=(3,), judge=reference, **attributes,
        )  # fmt: skip

    doubled = code((16, 16), mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric")  # fmt: skip
    assert doubled.count("interpolate(") == 1
    linear = code((13, 5), mode="linear", coordinate_transformation_mode="half_pixel")
    assert linear.count("interpolate(") == 1
    corners = code((15, 5), mode="linear", coordinate_transformation_mode="align_corners")
    assert "align_corners = True" in corners
    cubic = code((16, 16), mode="cubic", coordinate_transformation_mode="half_pixel",
                 cubic_coeff_a=-0.75)  # fmt: skip
    assert "bicubic" in cubic
