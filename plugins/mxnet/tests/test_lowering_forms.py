"""Forms of layers that the onnx package has no case for, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from dlbricks_mxnet.check import unsupported
from dlbricks_mxnet.lowering import lower
from dlbricks_mxnet.timer import MxnetTimer
from onnx import helper
from onnx.reference import ReferenceEvaluator

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, dtype_name

RNG = np.random.default_rng(0)


def _normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def _positive(*shape):
    return np.abs(_normal(*shape)) + np.float32(0.1)


def _expected(op, inputs, attributes, outputs, reference):
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    values = {f"i{k}": x for k, x in enumerate(inputs) if x is not None}
    kinds = {n: helper.np_dtype_to_tensor_dtype(x.dtype) for n, x in values.items()}
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"o{k}" for k in range(outputs)], **attributes)],
        "layer",
        [helper.make_tensor_value_info(n, kinds[n], x.shape) for n, x in values.items()],
        [helper.make_empty_tensor_value_info(f"o{k}") for k in range(outputs)],
    )
    opset = helper.make_opsetid("", 22)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    if reference:
        return ReferenceEvaluator(proto).run(None, values)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, values)


def _network(op, inputs, attributes, expected, weights):
    values = {f"i{k}": x for k, x in enumerate(inputs) if x is not None}
    specs = {name: TensorSpec(dtype_name(x.dtype), x.shape) for name, x in values.items()}
    outputs = tuple(f"o{k}" for k in range(len(expected)))
    for name, x in zip(outputs, expected, strict=True):
        specs[name] = TensorSpec(dtype_name(x.dtype), x.shape)
    held = {f"i{k}" for k in weights} & set(values)
    names = tuple("" if x is None else f"i{k}" for k, x in enumerate(inputs))
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in attributes.items()}
    model = CanonicalModel(
        name=op,
        layers=(Layer(op, names, outputs, plain),),
        inputs=tuple(name for name in values if name not in held),
        outputs=outputs,
        tensors=specs,
        weights=frozenset(held),
        constants={name: values[name] for name in held},
    )
    fed = {name: x for name, x in values.items() if name not in held}
    return Network(model, {name: values[name] for name in held}, fed)


def _run(network, executor="symbol"):
    timer = MxnetTimer(BackendSettings(options={"executor": executor}))
    loaded = timer.load(network)
    timer.run(loaded)
    return timer.outputs(loaded)


def _check(op, inputs, attributes=(), *, weights=(), outputs=1, reference=False):
    expected = _expected(op, inputs, dict(attributes), outputs, reference)
    network = _network(op, inputs, dict(attributes), expected, weights)
    assert unsupported(network.model) == {}
    for executor in ("cachedop", "symbol"):
        results = _run(network, executor)
        for name, wanted in zip(network.model.outputs, expected, strict=True):
            assert results[name].dtype == wanted.dtype
            np.testing.assert_allclose(results[name], wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("MaxPool", {}),
        ("AveragePool", {"count_include_pad": 0}),
        ("AveragePool", {"count_include_pad": 1}),
        ("LpPool", {}),
    ],
)
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0), (1, 0, 1, 1)])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)])
def test_pooling_of_any_windows(op, more, pads, ceil_mode, dilations):
    attributes = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": pads, "ceil_mode": ceil_mode,
                  "dilations": dilations, **more}  # fmt: skip
    _check(op, [_normal(2, 3, 8, 7)], attributes)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_convolution_with_asymmetric_pads(dimensions, group):
    attributes = {
        "kernel_shape": [3] * dimensions,
        "strides": [2] * dimensions,
        "dilations": [2] * dimensions,
        "pads": [1] * dimensions + [2] * dimensions,
        "group": group,
    }
    x, w = _normal(2, 4, *[9] * dimensions), _normal(8, 4 // group, *[3] * dimensions)
    _check("Conv", [x, w, _normal(8)], attributes, weights=(1, 2))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (1, 0), (0, 2), (2, 1)])
@pytest.mark.parametrize("extra", [0, 1])
def test_transposed_convolution_with_any_pads(dimensions, pads, extra):
    attributes = {
        "kernel_shape": [3] * dimensions,
        "strides": [2] * dimensions,
        "dilations": [1] * dimensions,
        "pads": [pads[0]] * dimensions + [pads[1]] * dimensions,
        "output_padding": [extra] * dimensions,
        "group": 2,
    }
    x, w = _normal(2, 4, *[4] * dimensions), _normal(4, 3, *[3] * dimensions)
    _check("ConvTranspose", [x, w, _normal(6)], attributes, weights=(1, 2))


@pytest.mark.parametrize(
    "transform",
    ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"],
)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(2.0, 2.0), (0.6, 3.0), (1.5, 0.5)])
def test_resize_in_every_mode(transform, mode, scales):
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    values = np.array([1, 1, *scales], np.float32)
    inputs = [_normal(1, 2, 5, 4), None, values]
    _check("Resize", inputs, attributes, weights=(2,), reference=True)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("pads", [(0, 1, 2, 0), (1, 1, 1, 1), (-1, 0, 2, 1)])
def test_padding_in_every_mode_and_type(mode, dtype, pads):
    inputs = [(_normal(4, 5) * 5).astype(dtype), np.array(pads), np.array(3, dtype)]
    _check("Pad", inputs, {"mode": mode}, weights=(1, 2))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_slicing_backwards_and_beyond_the_ends(dtype):
    inputs = [_normal(5, 6).astype(dtype), np.array([9, 1]), np.array([-9, 5]),
              np.array([0, 1]), np.array([-2, 2])]  # fmt: skip
    _check("Slice", inputs, weights=(1, 2, 3, 4))


@pytest.mark.parametrize(
    ("a", "b"),
    [((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5)),
     ((2, 3, 4), (4, 5)), ((2, 2, 3, 4), (2, 2, 4, 5))],
)  # fmt: skip
@pytest.mark.parametrize("weights", [(), (1,)])
def test_matrix_product_of_any_ranks(a, b, weights):
    _check("MatMul", [_normal(*a), _normal(*b)], weights=weights)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("bias", [None, (5,), (1, 5), (3, 1), (3, 5), ()])
@pytest.mark.parametrize("weights", [(), (1,), (1, 2)])
def test_gemm_with_all_options(trans_a, trans_b, bias, weights):
    a, b = (_normal(4, 3), _normal(3, 4))[1 - trans_a], (_normal(4, 5), _normal(5, 4))[trans_b]
    inputs = [a, b] + ([] if bias is None else [np.asarray(_normal(*bias))])
    attributes = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": 2.0}
    _check("Gemm", inputs, attributes, weights=weights)


@pytest.mark.parametrize(
    ("op", "extra"),
    [("LSTM", {}), ("LSTM", {"input_forget": 1}), ("GRU", {"linear_before_reset": 1}),
     ("GRU", {"linear_before_reset": 0}), ("RNN", {}), ("RNN", {"activations": "Relu"})],
)  # fmt: skip
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("with_state", [False, True])
def test_recurrent_layers(op, extra, direction, with_state):
    count, gates = (2 if direction == "bidirectional" else 1), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    attributes = {"hidden_size": 3, "direction": direction, **extra}
    if "activations" in extra:
        attributes["activations"] = [extra["activations"]] * count
    inputs = [_normal(4, 2, 5), _normal(count, gates * 3, 5), _normal(count, gates * 3, 3),
              _normal(count, gates * 6)]  # fmt: skip
    if with_state:
        inputs += [None, _normal(count, 2, 3)] + [_normal(count, 2, 3)] * (op == "LSTM")
    outputs = 3 if op == "LSTM" else 2
    _check(op, inputs, attributes, weights=(1, 2, 3), outputs=outputs)


@pytest.mark.parametrize(
    "equation",
    ["ij,jk->ik", "bij,bjk->bik", "bqhd,bkhd->bhqk", "...ij,...jk->...ik", "ij->ji", "ijk->i",
     "i,j->ij", "ab,bc,cd->ad", "i,i->"],
)  # fmt: skip
def test_einstein_sum(equation):
    sizes = {label: size for size, label in enumerate("abcdijkhbq", start=2)}
    inputs = [
        _normal(*[7] * term.count("..."), *[sizes[c] for c in term.replace("...", "")])
        for term in equation.partition("->")[0].split(",")
    ]
    _check("Einsum", inputs, {"equation": equation}, reference="..." in equation)


LARGE = np.array([2**53 + 1, -(2**55) - 3, 7, -7])
SMALL = np.array([3, 2, -5, 5])


@pytest.mark.parametrize(
    "op", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Less", "GreaterOrEqual"]
)
def test_integers_of_64_bits_keep_every_digit(op):
    x = LARGE // 1024 if op == "Mul" else LARGE
    if op == "Div":  # of one sign, or ONNX does not say how to round
        network = _network(op, [np.abs(x), np.abs(SMALL)], {}, [np.abs(x)], ())
        np.testing.assert_array_equal(_run(network)["o0"], np.abs(x) // np.abs(SMALL))
        return
    _check_exactly(op, [x, SMALL])


@pytest.mark.parametrize("op", ["Abs", "Neg", "Sign", "Relu"])
def test_integers_of_64_bits_keep_every_digit_alone(op):
    functions = {"Abs": np.abs, "Neg": np.negative, "Sign": np.sign,
                 "Relu": lambda x: np.maximum(x, 0)}  # fmt: skip
    network = _network(op, [LARGE], {}, [LARGE], ())
    np.testing.assert_array_equal(_run(network)["o0"], functions[op](LARGE))


def _check_exactly(op, inputs):
    expected = _expected(op, inputs, {}, 1, reference=False)
    results = _run(_network(op, inputs, {}, expected, ()))
    np.testing.assert_array_equal(results["o0"], expected[0])


@pytest.mark.parametrize(
    ("op", "function"),
    [("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMin", np.min), ("CumSum", np.cumsum)],
)
def test_reductions_of_64_bit_integers_keep_every_digit(op, function):
    axes = np.array(0) if op == "CumSum" else np.array([0])
    expected = np.reshape(function(LARGE), (-1,))
    results = _run(_network(op, [LARGE, axes], {}, [expected], (1,)))
    np.testing.assert_array_equal(results["o0"], expected)


def test_rounding_goes_to_even_at_ties():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, np.inf, -np.inf],
                 np.float32)  # fmt: skip
    _check_exactly("Round", [x])


@pytest.mark.parametrize("largest", [0, 1])
def test_equal_elements_keep_their_order_in_topk(largest):
    x = np.array([[3, 1, 3, 2, 3, 1, 1, 2]], np.float32)
    _check("TopK", [x, np.array([5])], {"largest": largest}, weights=(1,), outputs=2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("weights", [(), (1,)])
def test_negative_indices_count_from_the_end(axis, weights):
    x, index = _normal(4, 5), np.array([[-1, 0], [2, -3]])
    _check("Gather", [x, index], {"axis": axis}, weights=weights)
    _check("GatherElements", [x, index], {"axis": axis}, weights=weights)
    _check("GatherND", [x, index[:, :1]], weights=weights)


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((2, 3, 2, 2, 2, 3, 2), (6, 4, 2, 0, 5, 3, 1)),  # no two axes stay together
        ((1, 3, 2, 2, 3, 2, 2, 3), (0, 2, 4, 6, 5, 7, 3, 1)),  # blocks of a video
        ((2, 1, 2, 3, 1, 2, 1, 2), (0, 3, 1, 2, 4, 5, 7, 6)),
        ((1, 1, 1, 1, 1, 1, 1), (6, 5, 4, 3, 2, 1, 0)),
    ],
)
def test_transpose_of_more_axes_than_mxnet_has(shape, perm):
    _check("Transpose", [_normal(*shape)], {"perm": perm})
    _check("Transpose", [_normal(*shape) > 0], {"perm": perm})


def test_reshape_from_and_to_more_axes_than_mxnet_has():
    long, short = (1, 3, 2, 2, 3, 2, 2, 2), (6, 6, 8)
    _check("Reshape", [_normal(*short), np.array(long)], weights=(1,))
    _check("Reshape", [_normal(*long), np.array(short)], weights=(1,))
    _check("Unsqueeze", [_normal(2, 3, 2, 2, 3, 2), np.array([0, 3])], weights=(1,))
    _check("Squeeze", [_normal(*long), np.array([0])], weights=(1,))


def test_selection_joins_axes_that_broadcast_alike():
    x = _normal(1, 4, 3, 2, 3, 2)
    _check("Where", [_normal(3, 2, 1, 1) > 0, np.array(0, np.float32), x])
    _check("Where", [_normal(3, 2) > 0, x, _normal(4, 1, 1, 1, 1)])


@pytest.mark.parametrize("weights", [(), (1,)])
def test_positions_in_a_tensor_of_many_axes(weights):
    x, index = _normal(4, 5, 1, 2), RNG.integers(-4, 4, (3, 2, 3, 2, 2))
    _check("GatherND", [x, index], weights=weights)
    updates = _normal(2, 1, 2, 1, 1, 2)
    rows = np.array([[0, 1], [3, -1], [2, 2], [1, 0]]).reshape(2, 1, 2, 1, 2)
    _check("ScatterND", [x, rows, updates], weights=weights)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_samples_at_computed_positions(mode, padding_mode, align_corners):
    attributes = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    grid = RNG.uniform(-1.4, 1.4, (2, 5, 6, 2)).astype(np.float32)
    _check("GridSample", [_normal(2, 8, 7, 4), grid], attributes)
    _check("GridSample", [_normal(2, 3, 4, 7), grid], attributes)


@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [2, 2]}, {"pads": [1, 0, 1, 0], "dilations": [1, 2]}]
)
def test_windows_add_up(attributes):
    kernel, size = np.array([2, 3]), np.array([6, 7])
    steps, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4)
    wide = attributes.get("dilations", [1, 1])
    number = np.prod((size + 2 * np.array(pads[:2]) - np.array(wide) * (kernel - 1) - 1)
                     // np.array(steps) + 1)  # fmt: skip
    _check("Col2Im", [_normal(2, 4 * 6, number), size, kernel], attributes, weights=(1, 2))


def test_tensors_without_axes_come_and_go_without_axes():
    x = np.array(2.0, np.float32)
    network = _network("Add", [x, np.asarray(x + 1, np.float32)], {}, [x], ())
    result = _run(network)["o0"]
    assert result.shape == ()
    assert result == 5.0
    _check("Gather", [_normal(4), np.array(1)], {"axis": 0})
    _check("ReduceSum", [_normal(4, 3), np.array([0, 1])], {"keepdims": 0}, weights=(1,))


def test_batch_normalization_by_computed_statistics_and_by_shared_weights():
    x, c = _normal(2, 3, 4, 4), _positive(3)
    _check("BatchNormalization", [x, c, c, c, c], {"epsilon": 1e-3})
    spec = {"x": TensorSpec("float32", x.shape), "w": TensorSpec("float32", (3,)),
            "y": TensorSpec("float32", x.shape)}  # fmt: skip
    layer = Layer("BatchNormalization", ("x", "w", "w", "w", "w"), ("y",), {"epsilon": 1e-3})
    model = CanonicalModel("shared", (layer,), ("x",), ("y",), spec, frozenset({"w"}))
    network = Network(model, {"w": c}, {"x": x})
    shape = c.reshape(1, 3, 1, 1)
    expected = (x - shape) / np.sqrt(shape + 1e-3) * shape + shape
    np.testing.assert_allclose(_run(network)["y"], expected, rtol=1e-4, atol=1e-5)
    assert len(lower(network).auxiliary) == 2


def test_outputs_may_be_inputs_weights_or_each_other():
    spec = TensorSpec("float32", (2, 3))
    layers = (Layer("Relu", ("x",), ("y",)),)
    model = CanonicalModel("o", layers, ("x",), ("y", "x", "w", "y"), dict.fromkeys("xyw", spec),
                           frozenset({"w"}))  # fmt: skip
    x, w = _normal(2, 3), _normal(2, 3)
    lowered = lower(Network(model, {"w": w}, {"x": x}))
    assert len(set(lowered.symbol.list_outputs())) == 4


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "reason"),
    [
        ("MaxPool", [(1, 1, 2, 2, 2, 2)], {"kernel_shape": (1,) * 4}, "4 dimensions"),
        ("Conv", [(1, 1, 2, 2, 2, 2), (1, 1, 1, 1, 1, 1)], {}, "4 dimensions"),
        ("Relu", [(1,) * 7], {}, "axes"),
        ("Softmax", [(2, 3)], {"axis": 1, "temperature": 2.0}, "temperature"),
        ("NoSuchOperator", [(1,)], {}, "NoSuchOperator"),
        ("Relu", [(4,)], {}, "computes"),
    ],
)
def test_unsupported_names_the_reason_without_raising(op, inputs, attributes, reason, capfd):
    specs = {f"i{k}": TensorSpec("float32", shape) for k, shape in enumerate(inputs)}
    specs["o"] = TensorSpec("float32", (3,) if reason == "computes" else inputs[0])
    model = CanonicalModel(
        "m", (Layer(op, tuple(specs)[:-1], ("o",), attributes),), tuple(specs)[:-1], ("o",), specs
    )
    reasons = unsupported(model)
    assert set(reasons) == {0}
    assert reason in reasons[0]
    assert capfd.readouterr().out == ""
    fed = {name: np.ones(specs[name].sizes, np.float32) for name in model.inputs}
    with pytest.raises(UnsupportedError):
        lower(Network(model, {}, fed))


def test_unsupported_needs_no_values_of_weights():
    specs = {
        "x": TensorSpec("float32", (4, 2, 5)),
        "w": TensorSpec("float32", (1, 12, 5)),
        "r": TensorSpec("float32", (1, 12, 3)),
        "y": TensorSpec("float32", (4, 1, 2, 3)),
    }
    layer = Layer("LSTM", ("x", "w", "r"), ("y",), {"hidden_size": 3})
    model = CanonicalModel("m", (layer,), ("x",), ("y",), specs, frozenset("wr"))
    assert unsupported(model) == {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint16"])
def test_matrix_products_of_other_types_are_refused(dtype):
    spec = TensorSpec(dtype, (2, 2))
    model = CanonicalModel("m", (Layer("MatMul", ("a", "b"), ("c",)),), ("a", "b"), ("c",),
                           dict.fromkeys("abc", spec))  # fmt: skip
    assert dtype in unsupported(model)[0]
