"""Torch's layers stay one operator each, and compute the same as torch."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dlbricks_pytorch.export import to_program, trace
from dlbricks_pytorch.importer import from_module
from torch import nn

from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize

ort = pytest.importorskip("onnxruntime")


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def rand(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


IMAGE = rand(2, 8, 12, 12)
VOLUME = rand(1, 2, 5, 6, 7)
TOKENS = rand(2, 7, 16)
HEADS = tuple(rand(2, 4, 6, 8) + i for i in range(3))
GROUPED = (rand(2, 4, 6, 8), rand(2, 2, 6, 8), rand(2, 2, 6, 8) + 1)
CACHED = (rand(2, 4, 1, 8), rand(2, 4, 9, 8), rand(2, 4, 9, 8) + 1)
LOWER = torch.ones(6, 6).tril().bool()


def attention(**options):
    return Lambda(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options))


class LearnedBias(nn.Module):
    """Attention as in T5: torch traces what follows it as views, by strides that do not last."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32, bias=False)
        self.bias = nn.Parameter(rand(1, 4, 6, 6))

    def forward(self, x):
        heads = self.inner(x).view(1, -1, 4, 8).transpose(1, 2)
        result = F.scaled_dot_product_attention(
            heads, heads, heads, attn_mask=self.bias * x[0, 0, 0]
        )
        return result.transpose(1, 2).contiguous().reshape(1, 6, -1)


#: What is written -> the module, its inputs, and the operators that it consists of.
CASES = {
    "LayerNorm": (nn.LayerNorm(16), (TOKENS,), ["LayerNormalization"]),
    "LayerNorm over two axes": (nn.LayerNorm((7, 16)), (TOKENS,), ["LayerNormalization"]),
    "LayerNorm without weights": (
        nn.LayerNorm(16, elementwise_affine=False), (TOKENS,), ["LayerNormalization"],
    ),
    "RMSNorm": (nn.RMSNorm(16), (TOKENS,), ["RMSNormalization"]),
    "GroupNorm": (nn.GroupNorm(4, 8), (IMAGE,), ["GroupNormalization"]),
    "GroupNorm without weights": (
        nn.GroupNorm(4, 8, affine=False), (IMAGE,), ["GroupNormalization"],
    ),
    "InstanceNorm": (nn.InstanceNorm2d(8, affine=True), (IMAGE,), ["InstanceNormalization"]),
    "InstanceNorm without weights": (nn.InstanceNorm2d(8), (IMAGE,), ["InstanceNormalization"]),
    "BatchNorm": (nn.BatchNorm2d(8), (IMAGE,), ["BatchNormalization"]),
    "BatchNorm of vectors": (nn.BatchNorm1d(8), (rand(4, 8),), ["BatchNormalization"]),
    "GELU": (nn.GELU(), (TOKENS,), ["Gelu"]),
    "GELU by tanh": (nn.GELU(approximate="tanh"), (TOKENS,), ["Gelu"]),
    "SiLU": (nn.SiLU(), (TOKENS,), ["Swish"]),
    "Mish": (nn.Mish(), (TOKENS,), ["Mish"]),
    "Hardswish": (nn.Hardswish(), (TOKENS,), ["HardSwish"]),
    "Hardsigmoid": (nn.Hardsigmoid(), (TOKENS,), ["HardSigmoid"]),
    "ReLU6": (nn.ReLU6(), (TOKENS,), ["Clip"]),
    "PReLU": (nn.PReLU(8), (IMAGE,), ["PRelu"]),
    "ELU": (nn.ELU(), (TOKENS,), ["Elu"]),
    "ELU, scaled": (nn.ELU(0.5), (TOKENS,), ["Elu"]),
    "SELU": (nn.SELU(), (TOKENS,), ["Selu"]),
    "CELU": (nn.CELU(), (TOKENS,), ["Celu"]),
    "LeakyReLU": (nn.LeakyReLU(), (TOKENS,), ["LeakyRelu"]),
    "Softplus": (nn.Softplus(), (TOKENS,), ["Softplus"]),
    "Softplus, scaled": (nn.Softplus(2, 30), (TOKENS,), ["Mul", "Softplus", "Mul"]),
    "LogSoftmax": (nn.LogSoftmax(-1), (TOKENS,), ["LogSoftmax"]),
    "attention": (attention(), HEADS, ["Attention"]),
    "causal attention": (attention(is_causal=True), HEADS, ["Attention"]),
    "scaled attention": (attention(scale=0.5), HEADS, ["Attention"]),
    "attention with a boolean mask": (attention(attn_mask=LOWER), HEADS, ["Attention"]),
    "attention with an added mask": (attention(attn_mask=rand(6, 6)), HEADS, ["Attention"]),
    "attention with a mask that all queries share": (
        attention(attn_mask=LOWER[2:3]), HEADS, ["Attention"],
    ),
    "attention with a learned bias": (
        LearnedBias(), (rand(1, 6, 32),),
        ["MatMul", "Reshape", "Transpose", "Gather", "Gather", "Gather", "Mul",
         "Attention", "Transpose", "Reshape"],
    ),
    "grouped-query attention": (attention(enable_gqa=True), GROUPED, ["Attention"]),
    "attention over a cache": (attention(), CACHED, ["Attention"]),
    "attention of one head": (
        attention(), tuple(h[:, 0] for h in HEADS), ["Unsqueeze"] * 3 + ["Attention", "Squeeze"],
    ),
    "attention without a batch": (
        attention(), tuple(h[0, 0] for h in HEADS), ["Unsqueeze"] * 3 + ["Attention", "Squeeze"],
    ),
    "attention with five axes": (
        attention(is_causal=True), tuple(h[None] for h in HEADS),
        ["Transpose", "MatMul", "Mul", "Where", "Softmax", "MatMul"],
    ),
    "Conv1d": (nn.Conv1d(7, 5, 3), (TOKENS,), ["Conv"]),
    "Conv2d": (nn.Conv2d(8, 4, (3, 5), 2, (1, 2), groups=4), (IMAGE,), ["Conv"]),
    "Conv2d without bias": (nn.Conv2d(8, 4, 3, dilation=2, bias=False), (IMAGE,), ["Conv"]),
    "Conv2d to the same size": (nn.Conv2d(8, 4, 3, padding="same"), (IMAGE,), ["Conv"]),
    "Conv2d without a batch": (
        nn.Conv2d(8, 4, 3), (IMAGE[0],), ["Unsqueeze", "Conv", "Squeeze"],
    ),
    "Conv3d": (nn.Conv3d(2, 4, 3, padding=1), (VOLUME,), ["Conv"]),
    "Conv3d without bias": (nn.Conv3d(2, 4, 3, bias=False), (VOLUME,), ["Conv"]),
    "ConvTranspose1d": (nn.ConvTranspose1d(7, 4, 3, 2), (TOKENS,), ["ConvTranspose"]),
    "ConvTranspose2d": (nn.ConvTranspose2d(8, 4, 2, 2), (IMAGE,), ["ConvTranspose"]),
    "Linear of vectors": (nn.Linear(8, 3), (rand(4, 8),), ["Gemm"]),
    "Linear of tokens": (nn.Linear(16, 3), (TOKENS,), ["MatMul", "Add"]),
    "pooling to one": (nn.AdaptiveAvgPool2d(1), (IMAGE,), ["GlobalAveragePool"]),
    "pooling to a divisor": (nn.AdaptiveAvgPool2d((4, 6)), (IMAGE,), ["AveragePool"]),
    "MaxPool2d": (nn.MaxPool2d(3, 2, 1), (IMAGE,), ["MaxPool"]),
    "Upsample": (nn.Upsample(scale_factor=2), (IMAGE,), ["Resize"]),
    "Upsample bilinearly": (
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), (IMAGE,), ["Resize"],
    ),
    "PixelShuffle": (nn.PixelShuffle(2), (IMAGE,), ["DepthToSpace"]),
    "split evenly": (Lambda(lambda x: x.split(4, 2)), (TOKENS,), ["Split"]),
    "split with a rest": (Lambda(lambda x: x.split(6, 2)), (TOKENS,), ["Split"]),
    "split to sizes": (Lambda(lambda x: x.split((1, 4, 2), 1)), (TOKENS,), ["Split"]),
    "chunk": (Lambda(lambda x: x.chunk(3, -1)), (TOKENS,), ["Split"]),
    "einsum": (Lambda(lambda x: torch.einsum("bij,bkj->bik", x, x)), (TOKENS,), ["Einsum"]),
}  # fmt: skip

#: Recurrent networks, whose operator needs some moving of axes around it.
RECURRENT = {
    "LSTM": (nn.LSTM(16, 12, 2, bidirectional=True), "LSTM"),
    "LSTM, batch first": (nn.LSTM(16, 12, batch_first=True), "LSTM"),
    "GRU": (nn.GRU(16, 12, 2, bidirectional=True), "GRU"),
    "RNN": (nn.RNN(16, 12, 2, bidirectional=True), "RNN"),
    "RNN, batch first": (nn.RNN(16, 12, batch_first=True), "RNN"),
    "RNN with ReLU, no bias": (nn.RNN(16, 12, nonlinearity="relu", bias=False), "RNN"),
}


class Everything(nn.Module):
    """Several modules side by side: exporting takes as long for many as for one."""

    def __init__(self, cases):
        super().__init__()
        self.cases = nn.ModuleList(module for module, *_ in cases)
        self.arities = [len(inputs) for _, inputs, *_ in cases]

    def forward(self, *inputs):
        rest = iter(inputs)
        arguments = [[next(rest) for _ in range(arity)] for arity in self.arities]
        return [module(*own) for module, own in zip(self.cases, arguments, strict=True)]


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results.detach().numpy()]
    return [array for result in results for array in flat(result)]


@dataclass
class Imported:
    """What became of a case: its operators, and what they and torch compute."""

    operators: list[str]
    results: list[np.ndarray]
    expected: list[np.ndarray]

    def assert_same_as_torch(self):
        for result, wanted in zip(self.results, self.expected, strict=True):
            assert wanted.std() > 1e-3, "the comparison shows nothing"
            np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3 * wanted.std())


def imported(cases):
    """Exports the cases together; each with its own weights."""
    module = Everything(cases.values()).eval()
    inputs = [tensor.clone() for _, own, *_ in cases.values() for tensor in own]
    proto = to_program(trace(module, inputs, {})).model_proto
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    fed = {i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs, strict=True)}
    results = iter(zip(proto.graph.output, session.run(None, fed), strict=True))
    model = normalize(read_model(proto, name="everything"))
    found = {}
    for key, expected in zip(cases, module(*inputs), strict=True):
        expected = flat(expected)
        own = [next(results) for _ in expected]
        found[key] = Imported(
            operators_before(model, [output.name for output, _ in own]),
            [value for _, value in own],
            expected,
        )
    return found


def operators_before(model, outputs):
    """Of all layers that the outputs depend on, in the model's order."""
    wanted, found = set(outputs), []
    for layer in reversed(model.layers):
        if wanted.intersection(layer.outputs):
            wanted.update(layer.reads)
            found.append(layer.op)
    return found[::-1]


@pytest.fixture(scope="module")
def layers():
    return imported(CASES)


@pytest.fixture(scope="module")
def recurrences():
    return imported({key: (module, (TOKENS,)) for key, (module, _) in RECURRENT.items()})


def alone(module, *inputs):
    return imported({"alone": (module, inputs)})["alone"]


@pytest.mark.parametrize("case", CASES)
def test_torch_layer_keeps_its_operator(case, layers):
    assert layers[case].operators == CASES[case][2]
    layers[case].assert_same_as_torch()


@pytest.mark.parametrize("case", RECURRENT)
def test_torch_recurrence_is_one_operator_a_layer(case, recurrences):
    module, operator = RECURRENT[case]
    found = Counter(recurrences[case].operators)
    assert found[operator] == module.num_layers
    assert set(found) <= {operator, "Transpose", "Reshape", "Squeeze", "Concat"}
    recurrences[case].assert_same_as_torch()


def test_torch_convolution_without_bias_gets_none():
    model = normalize(from_module(nn.Conv2d(8, 4, 3, bias=False), (IMAGE,)))
    assert len(model.layers[0].inputs) == 2


def test_torch_pooling_that_does_not_divide_is_still_exact():
    pooling = alone(nn.AdaptiveAvgPool2d(5), IMAGE)
    assert "AveragePool" not in pooling.operators
    pooling.assert_same_as_torch()


def test_torch_encoder_layer_keeps_attention():
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True)
    with torch.no_grad():  # where torch would take its fused operator
        encoder = alone(layer, TOKENS)
    encoder.assert_same_as_torch()
    found = Counter(encoder.operators)
    assert found["Attention"] == 1
    assert found["LayerNormalization"] == 2
    assert found["Gelu"] == 1


def test_torch_export_says_nothing(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_module(nn.Linear(8, 4), (torch.randn(1, 8),))
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


#: Ways to take the upper four bits of a byte.
SHIFTS = {
    "operator": lambda packed: packed >> 4,
    "function": lambda packed: torch.bitwise_right_shift(packed, 4),
    "tensor": lambda packed: torch.bitwise_right_shift(packed, torch.full_like(packed, 4)),
}


@pytest.mark.parametrize("shift", SHIFTS)
def test_weights_of_four_bits_are_unpacked_as_torch_does(shift):
    packed = torch.arange(64, 192, dtype=torch.uint8).reshape(8, 16)

    def product(x):
        halves = torch.stack([packed & 15, SHIFTS[shift](packed)], -1)
        return x @ halves.reshape(8, 32).float().t()

    unpacked = alone(Lambda(product), rand(2, 32))
    unpacked.assert_same_as_torch()
