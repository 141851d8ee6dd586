"""Forms of layers that the onnx package ships no case for, against a trusted evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dlbricks_pytorch.lowering import lower
from one_layer import agree, ints, normal, reference

from dlbricks_core.backends import Network
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("op", RECURRENT)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("native", [True, False])
def test_recurrent_layers(op, direction, bias, states, native):
    gates, dirs, hidden = RECURRENT[op], 2 if direction == "bidirectional" else 1, 5
    inputs = [normal(6, 2, 3), normal(dirs, gates * hidden, 3, seed=1) * 0.4,
              normal(dirs, gates * hidden, hidden, seed=2) * 0.4,
              normal(dirs, 2 * gates * hidden, seed=3) if bias else None]  # fmt: skip
    count = 2 if op == "LSTM" else 1
    if states:
        inputs += [None, *(normal(dirs, 2, hidden, seed=4 + i) for i in range(count))]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = int(native)
    elif not native:
        attributes["clip"] = 0.3
    shapes = [(6, dirs, 2, hidden), *((dirs, 2, hidden),) * count]
    while inputs[-1] is None:
        inputs.pop()
    weights = tuple(p for p in (1, 2, 3) if p < len(inputs) and inputs[p] is not None)
    code = agree(op, inputs, shapes, weights=weights, **attributes)
    assert ("torch.lstm(" in code or "torch.gru(" in code or "torch.rnn" in code) is native


@pytest.mark.parametrize("op", RECURRENT)
@pytest.mark.parametrize("known", [False, True])
def test_sequences_that_end_early(op, known):
    gates, hidden = RECURRENT[op], 5
    inputs = [normal(6, 3, 4), normal(2, gates * hidden, 4, seed=1),
              normal(2, gates * hidden, hidden, seed=2), None,
              np.array([6, 2, 4], np.int32)]  # fmt: skip
    shapes = [(6, 2, 3, hidden), *((2, 3, hidden),) * (2 if op == "LSTM" else 1)]
    agree(op, inputs, shapes, weights=(1, 2), parameters=(4,) if known else (),
          hidden_size=hidden, direction="bidirectional")  # fmt: skip


def test_recurrent_activations():
    inputs = [normal(4, 2, 3), normal(2, 5, 3), normal(2, 5, 5)]
    shapes = [(4, 2, 2, 5), (2, 2, 5)]
    agree(
        "RNN", inputs, shapes, weights=(1, 2), hidden_size=5, direction="bidirectional",
        activations=("HardSigmoid", "Elu"), activation_alpha=(0.3, 0.7), activation_beta=(0.4,),
    )  # fmt: skip


@pytest.mark.parametrize("a_rank", [1, 2, 3, 4])
def test_matmul_with_a_weight_is_linear(a_rank):
    a = normal(*(2, 3, 4, 6)[4 - a_rank :])
    code = agree("MatMul", [a, normal(6, 5)], [(*a.shape[:-1], 5)], weights=(1,))
    assert "linear(" in code


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 2.0)])
@pytest.mark.parametrize("c", [None, (), (5,), (1, 5), (4, 1), (4, 5)])
@pytest.mark.parametrize("weights", [(), (1, 2)])
def test_gemm(trans_a, trans_b, alpha, beta, c, weights):
    a, b = normal(4, 6), normal(6, 5)
    inputs = [a.T.copy() if trans_a else a, b.T.copy() if trans_b else b]
    if c is not None:
        inputs.append(normal(*c))
    weights = tuple(p for p in weights if p < len(inputs))
    agree("Gemm", inputs, [(4, 5)], weights=weights, alpha=alpha, beta=beta,
          transA=trans_a, transB=trans_b)  # fmt: skip


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_lrn_windows_of_any_size(size):
    def definition(proto, inputs):  # the reference evaluator takes batches for channels here
        (x,) = inputs.values()
        below, above = (size - 1) // 2, size // 2
        sums = [(x[:, max(c - below, 0) : c + above + 1] ** 2).sum(1) for c in range(7)]
        return [x / (1.5 + 0.5 / size * np.stack(sums, 1)) ** 0.7]

    agree("LRN", [normal(2, 7, 4, 4)], [(2, 7, 4, 4)], size=size, alpha=0.5, beta=0.7, bias=1.5,
          judge=definition)  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_col2im(axes, pads, stride, dilation):
    begin, end = pads
    windows = (6 + begin + end - dilation - 1) // stride + 1
    x = normal(2, 3 * 2**axes, windows**axes)
    agree(
        "Col2Im", [x, ints(*(6,) * axes), ints(*(2,) * axes)], [(2, 3, *(6,) * axes)],
        parameters=(1, 2), strides=(stride,) * axes, dilations=(dilation,) * axes,
        pads=(begin,) * axes + (end,) * axes, judge=reference,
    )  # fmt: skip


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("as_weight", [False, True])
def test_gather_counts_negative_indices_from_the_end(negative, as_weight):
    index = ints(0, 3, -1 if negative else 2)
    agree("Gather", [normal(2, 4, 3), index], [(2, 3, 3)], axis=1,
          weights=(1,) if as_weight else ())  # fmt: skip


def test_embedding_is_one_call():
    code = agree("Gather", [normal(10, 4), ints(1, 9, 3).reshape(1, 3)], [(1, 3, 4)], axis=0,
                 weights=(0,))  # fmt: skip
    assert "torch.embedding(" in code


def test_select_by_a_constant_is_a_view():
    code = agree("Gather", [normal(2, 4, 3), np.array(-1)], [(2, 3)], axis=1, weights=(1,))
    assert "torch.select(" in code


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "out"),
    [
        ((1,), (3,), (1,), (1,), (3, 2, 5)),
        ((0, 1), (3, 5), (0, 2), (2, 3), (2, 4, 2)),
        ((3,), (-100,), (1,), (-1,), (3, 4, 5)),
        ((4, 2), (0, -100), (2, 0), (-2, -1), (3, 4, 2)),
        ((2,), (2,), (1,), (1,), (3, 0, 5)),
    ],
)
def test_slice(starts, ends, axes, steps, out):
    inputs = [normal(3, 4, 5), *(ints(*values) for values in (starts, ends, axes, steps))]
    agree("Slice", inputs, [out], parameters=(1, 2, 3, 4))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                                "ReduceL1", "ReduceL2", "ReduceSumSquare"])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize(("axes", "keep"), [((1,), 0), ((0, 2), 1), ((0, 1, 2), 0)])
def test_reductions_of_floats_and_integers(op, dtype, axes, keep):
    x = np.random.default_rng(0).integers(1, 5, (2, 3, 4)).astype(dtype)
    out = tuple(1 if i in axes else s for i, s in enumerate(x.shape) if keep or i not in axes)

    def judge(proto, inputs):  # which widens some sums of integers
        return [np.asarray(y, dtype) for y in reference(proto, inputs)]

    agree(op, [x, ints(*axes)], [out], parameters=(1,), keepdims=keep, judge=judge)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"])
def test_a_reduction_over_no_axes_still_computes(op):
    x = np.random.default_rng(0).integers(1, 5, (2, 3)).astype(np.float32)
    agree(op, [x], [x.shape], noop_with_empty_axes=1)


@pytest.mark.parametrize(
    "equation", ["bij,bjk->bik", "bhqd,bhkd->bhqk", "ij->ji", "...ij,jk->...ik"]
)
def test_einsum(equation):
    terms = equation.split("->")[0].split(",")
    sizes = {letter: 2 + i for i, letter in enumerate("bhijkqd")}

    def shape(term):
        head = (3,) if "..." in term else ()
        return (*head, *(sizes[letter] for letter in term.replace("...", "")))

    inputs = [normal(*shape(term), seed=i) for i, term in enumerate(terms)]
    agree("Einsum", inputs, [shape(equation.split("->")[1])], equation=equation)


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("per_axis", [False, True])
def test_quantization(op, dtype, per_axis):
    shape = (3,) if per_axis else ()
    scale = np.full(shape, 0.05, np.float32) + np.float32(0.01)
    zero = np.full(shape, 3, dtype)
    if op == "QuantizeLinear":
        x = normal(2, 3, 4) * 5
        agree(
            op, [x, scale, zero], [x.shape], weights=(1, 2), axis=1, out_dtype=np.dtype(dtype).name
        )
    else:
        x = np.random.default_rng(0).integers(0, 100, (2, 3, 4)).astype(dtype)
        agree(op, [x, scale, zero], [x.shape], weights=(1, 2), axis=1, out_dtype="float32")


@pytest.mark.parametrize("signed", [False, True])
def test_integer_matmul_with_zero_points(signed):
    kind = np.int8 if signed else np.uint8
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 99, (2, 4, 6)).astype(np.uint8), rng.integers(0, 99, (6, 5)).astype(kind)
    zeros = [np.array(7, np.uint8), np.array(3, kind)]
    agree("MatMulInteger", [a, b, *zeros], [(2, 4, 5)], weights=(1, 2, 3), out_dtype="int32")


def test_integer_convolution_with_zero_points():
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 99, s).astype(np.uint8) for s in ((1, 3, 6, 6), (4, 3, 3, 3)))
    agree(
        "ConvInteger", [x, w, np.array(7, np.uint8), np.array(3, np.uint8)], [(1, 4, 6, 6)],
        weights=(1, 2, 3), out_dtype="int32", group=1, kernel_shape=(3, 3), strides=(1, 1),
        dilations=(1, 1), pads=(1, 1, 1, 1),
    )  # fmt: skip


def test_quantized_convolution_per_channel():
    # Weights of 7 bits: ONNX Runtime adds two products in 16 bits, which saturate beyond that, on
    # processors without VNNI instructions.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (1, 3, 6, 6)).astype(np.uint8)
    w = rng.integers(-64, 64, (4, 3, 3, 3)).astype(np.int8)
    scales = np.array([0.01, 0.02, 0.03, 0.04], np.float32)
    inputs = [x, np.float32(0.02).reshape(()), np.array(128, np.uint8), w, scales,
              np.zeros(4, np.int8), np.float32(0.5).reshape(()), np.array(120, np.uint8),
              rng.integers(-500, 500, 4).astype(np.int32)]  # fmt: skip
    agree(
        "QLinearConv", inputs, [(1, 4, 3, 3)], weights=tuple(range(1, 9)), group=1,
        kernel_shape=(3, 3), strides=(2, 2), dilations=(1, 1), pads=(1, 1, 0, 0),
    )  # fmt: skip


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p):
    agree("GlobalLpPool", [normal(2, 3, 4, 5)], [(2, 3, 1, 1)], p=p)


@pytest.mark.parametrize(
    ("op", "attributes", "mean", "deviation"),
    [
        ("RandomNormal", {"mean": 2.0, "scale": 3.0}, 2.0, 3.0),
        ("RandomNormalLike", {"mean": 0.0, "scale": 1.0}, 0.0, 1.0),
        ("RandomUniform", {"low": 1.0, "high": 3.0}, 2.0, 2 / 12**0.5),
        ("RandomUniformLike", {"low": 0.0, "high": 1.0}, 0.5, 1 / 12**0.5),
    ],
)
def test_random_numbers_have_the_right_distribution(op, attributes, mean, deviation):
    spec = TensorSpec("float32", (200, 300))
    inputs = ("x",) if op.endswith("Like") else ()
    model = CanonicalModel("m", (Layer(op, inputs, ("y",), attributes),), inputs, ("y",),
                  {"x": spec, "y": spec})  # fmt: skip
    torch.manual_seed(0)
    (drawn,) = lower(Network(model, {}, {})).forward(*(torch.zeros(200, 300) for _ in inputs))
    assert drawn.shape == (200, 300)
    assert drawn.mean().item() == pytest.approx(mean, abs=0.05)
    assert drawn.std().item() == pytest.approx(deviation, abs=0.05)


def test_multinomial_draws_by_unnormalized_logarithms():
    tensors = {"x": TensorSpec("float32", (1, 3)), "y": TensorSpec("int32", (1, 20000))}
    layer = Layer("Multinomial", ("x",), ("y",), {"sample_size": 20000, "dtype": 6})
    torch.manual_seed(0)
    module = lower(Network(CanonicalModel("m", (layer,), ("x",), ("y",), tensors), {}, {}))
    (drawn,) = module.forward(torch.log(torch.tensor([[1.0, 2.0, 5.0]])))
    shares = torch.bincount(drawn[0], minlength=3) / 20000
    assert drawn.dtype == torch.int32
    assert shares.tolist() == pytest.approx([0.125, 0.25, 0.625], abs=0.02)
