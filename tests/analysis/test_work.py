"""Operations and bytes, counted by hand and published for real networks."""

import numpy as np
import pytest
from dlbricks_study.repetition import analyze

from dlbricks_core.analysis import Work, layer_bytes, layer_flops
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize


def single(op, inputs, outputs, domain="", opaque="", **attributes):
    """One layer; the shapes of its inputs (None: left out) and outputs."""
    names = tuple("" if shape is None else f"i{k}" for k, shape in enumerate(inputs))
    results = tuple(f"o{k}" for k in range(len(outputs)))
    shapes = dict(zip((*names, *results), (*inputs, *outputs), strict=True))
    tensors = {n: TensorSpec("float32", s) for n, s in shapes.items() if n}
    layer = Layer(op, names, results, attributes, domain=domain, opaque=opaque)
    return CanonicalModel("one", (layer,), names, results, tensors)


def flops(*arguments, **attributes):
    model = single(*arguments, **attributes)
    return layer_flops(model, model.layers[0])


def moved(*arguments, **attributes):
    model = single(*arguments, **attributes)
    return layer_bytes(model, model.layers[0])


IMAGE = (1, 8, 10, 10)


@pytest.mark.parametrize(
    ("expected", "arguments", "attributes"),
    [
        # 800 outputs, each of 8 x 3 x 3 multiply-adds
        (800 * 144, ("Conv", [IMAGE, (8, 8, 3, 3)], [IMAGE]), {}),
        (800 * 145, ("Conv", [IMAGE, (8, 8, 3, 3), (8,)], [IMAGE]), {}),
        # depthwise: the filter's second axis is 1
        (800 * 18, ("Conv", [IMAGE, (8, 1, 3, 3)], [IMAGE]), {"group": 8}),
        # of codes: bias, and a scale and a shift of each result
        (800 * 147, ("QLinearConv", [IMAGE, (), (), (8, 8, 3, 3), (), (), (), (), (8,)], [IMAGE]),
         {}),
        (800 * 146, ("QLinearConv", [IMAGE, (), (), (8, 8, 3, 3), (), (), (), ()], [IMAGE]), {}),
        (30 * (2 * 4 + 2), ("QLinearMatMul", [(2, 3, 4), (), (), (4, 5), (), (), (), ()],
                            [(2, 3, 5)]), {}),
        # each of 800 inputs meets 4 x 2 x 2 weights
        (800 * 32, ("ConvTranspose", [IMAGE, (8, 4, 2, 2)], [(1, 4, 20, 20)]), {}),
        (2 * 30 * 4, ("MatMul", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)]), {}),
        (2 * 4, ("MatMul", [(4,), (4,)], [()]), {}),
        (2 * 30 * 4, ("Einsum", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)]), {"equation": "bij,bjk->bik"}),
        (12, ("Einsum", [(3, 4)], [(4, 3)]), {"equation": "ij->ji"}),
        (15 * (2 * 4 + 1), ("Gemm", [(3, 4), (4, 5), (5,)], [(3, 5)]),
         {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
        (15 * (2 * 4 + 3), ("Gemm", [(4, 3), (4, 5), (5,)], [(3, 5)]),
         {"alpha": 0.5, "beta": 0.5, "transA": 1, "transB": 0}),
        (200 * 9, ("MaxPool", [IMAGE], [(1, 8, 5, 5)]), {"kernel_shape": (3, 3)}),
        (800, ("GlobalAveragePool", [IMAGE], [(1, 8, 1, 1)]), {}),
        (800, ("Relu", [IMAGE], [IMAGE]), {}),
        (1600, ("Sum", [IMAGE, IMAGE, IMAGE], [IMAGE]), {}),
        (1600, ("BatchNormalization", [IMAGE, *[(8,)] * 4], [IMAGE]), {}),
        (800, ("Clip", [IMAGE, (), None], [IMAGE]), {}),
        (0, ("Concat", [IMAGE, IMAGE], [(1, 16, 10, 10)]), {"axis": 1}),
        (0, ("Resize", [IMAGE], [(1, 8, 20, 20)]), {"mode": "nearest"}),
        (3200 * 8, ("Resize", [IMAGE], [(1, 8, 20, 20)]), {"mode": "linear"}),
        # 5 steps, batch 2, 4 gates of 6 from 3 inputs and 6 states
        (10 * (24 * (2 * 9 + 1) + 30), ("LSTM", [(5, 2, 3), (1, 24, 3), (1, 24, 6)],
                                       [(5, 1, 2, 6)]), {}),
        # 30 elements, each of which has its place among the 5 best after 3 comparisons
        (30 * 3, ("TopK", [(3, 10), (1,)], [(3, 5), (3, 5)]), {"axis": -1}),
        (30, ("TopK", [(3, 10), (1,)], [(3, 1), (3, 1)]), {"axis": 1}),
        (800 * 8, ("GridSample", [IMAGE, (1, 10, 10, 2)], [IMAGE]), {"mode": "linear"}),
        (800 * 32, ("GridSample", [IMAGE, (1, 10, 10, 2)], [IMAGE]), {"mode": "cubic"}),
        (0, ("GridSample", [IMAGE, (1, 10, 10, 2)], [IMAGE]), {"mode": "nearest"}),
        # 3 regions of 8 x 7 x 7, each the mean of 2 x 2 samples of 4 weighted elements
        (3 * 392 * 4 * 9, ("RoiAlign", [IMAGE, (3, 4), (3,)], [(3, 8, 7, 7)]),
         {"sampling_ratio": 2}),
        (None, ("RoiAlign", [IMAGE, (3, 4), (3,)], [(3, 8, 7, 7)]), {"sampling_ratio": 0}),
        # 6 frames of 16 samples: a window, and 4 stages of 5 operations for each
        (6 * 16 * 21, ("STFT", [(2, 32, 1), (), (16,), ()], [(2, 3, 9, 2)]), {"onesided": 1}),
        (6 * 16 * 21, ("STFT", [(2, 32, 1), (), (16,), ()], [(2, 3, 16, 2)]), {"onesided": 0}),
    ],
)  # fmt: skip
def test_operations_equal_those_counted_by_hand(expected, arguments, attributes):
    assert flops(*arguments, **attributes) == expected


def test_bytes_equal_those_counted_by_hand():
    assert moved("Conv", [IMAGE, (8, 8, 3, 3), (8,)], [IMAGE]) == 4 * (800 + 576 + 8 + 800)
    assert moved("Reshape", [IMAGE, (2,)], [(8, 100)]) == 0
    assert moved("Gather", [(1000, 64), (3,)], [(3, 64)]) == 4 * (3 + 2 * 192)
    same = CanonicalModel("m", (Layer("Mul", ("x", "x"), ("y",)),), ("x",), ("y",),
                          dict.fromkeys("xy", TensorSpec("float32", (10,))))  # fmt: skip
    assert layer_bytes(same, same.layers[0]) == 80


def test_layers_without_a_rule_are_named_and_not_counted_as_zero(builder):
    assert flops("NoSuch", [IMAGE], [IMAGE]) is None
    assert flops("Relu", [IMAGE], [IMAGE], domain="elsewhere") is None
    assert flops("Relu", [IMAGE], [IMAGE], opaque="why") is None
    assert flops("Relu", [("n", 3)], [("n", 3)]) is None
    assert moved("NoSuch", [IMAGE], [IMAGE]) == 6400
    b = builder()
    b.add("NoSuch", b.relu(b.add("NoSuch", b.input)))
    work = analyze([b.model()]).models[0].work
    assert work.without_flops == {"NoSuch": 2}
    assert work.without_bytes == {}
    assert (work.flops, work.moved_bytes) == (144, 6 * 144 * 4)


@pytest.mark.parametrize(
    ("name", "giga", "million_weights"),
    # Multiply-adds and weights as the architectures are known for.
    [("resnet50", 4.1, 25.6), ("vgg19", 19.6, 143.7), ("squeezenet", 0.35, 1.24)],
)
def test_operations_and_weights_of_real_networks_are_the_published_ones(
    name, giga, million_weights
):
    work = Work.of(normalize(LightModels().load(name)))
    assert work.flops / 2e9 == pytest.approx(giga, rel=0.03)
    assert work.weight_bytes / 4e6 == pytest.approx(million_weights, rel=0.01)
    assert not work.without_flops
    assert work.moved_bytes > work.weight_bytes


def test_operations_of_convolutions_equal_all_products_counted(builder):
    """A convolution without padding, counted by walking over all of its products."""
    image, weights = np.ones((1, 2, 5, 5)), np.ones((3, 2, 2, 2))
    products = 0
    for _ in weights:
        for y in range(4):
            for x in range(4):
                products += image[0, :, y : y + 2, x : x + 2].size
    assert flops("Conv", [(1, 2, 5, 5), (3, 2, 2, 2)], [(1, 3, 4, 4)]) == 2 * products


def test_unique_operations_count_repeated_layers_once():
    def chain(name, *operators):
        names = ["x", *(f"{name}{i}" for i in range(len(operators)))]
        layers = tuple(
            Layer(op, (before,), (after,))
            for op, before, after in zip(operators, names, names[1:], strict=False)
        )
        return CanonicalModel(
            name,
            layers,
            ("x",),
            tuple(names[-1:]),
            dict.fromkeys(names, TensorSpec("float32", (4, 5))),
        )

    found = analyze([chain("a", "Relu", "Sigmoid", "Relu"), chain("b", "Relu")]).operations
    relu, sigmoid = (analyze([chain("c", op)]).operations.flops for op in ("Relu", "Sigmoid"))
    assert (found.flops, found.unique) == (3 * relu + sigmoid, relu + sigmoid)
    assert found.saving == pytest.approx((3 * relu + sigmoid) / (relu + sigmoid))
    assert analyze([chain("d", "Identity")]).operations.saving is None
