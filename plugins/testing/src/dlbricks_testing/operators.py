"""Operator cases of the onnx package, as networks in canonical form.

The package has some 1900 cases with inputs and expected results. They serve for numeric tests of
a backend that are broader than the conformance suite.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.checker import ValidationError

from dlbricks_core.backends import Array, Network
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.ir import TensorSpec, dtype_name, read_model
from dlbricks_core.operators import operator
from dlbricks_core.operators.table import OPERATORS
from dlbricks_core.passes import normalize
from dlbricks_testing.cases import difference
from dlbricks_testing.laboratory import Laboratory

_OLDEST_OPSET = 7
"""Oldest opset that models are tested with."""

_TOLERANCE = 1e-3
"""Maximum relative difference from an expected result."""


@dataclass(frozen=True)
class OperatorCase:
    """A case of the onnx package.

    Attributes:
        name: Name of the case in the package.
        network: The case, ready to run; ``None`` if no backend can get it.
        expected: Results by name of the output.
        excluded: Reason why no backend can get it: a subgraph, a result that is not a tensor, a
            shape that depends on data. Empty otherwise.
    """

    name: str
    network: Network | None
    expected: Mapping[str, Array] = field(default_factory=dict)
    excluded: str = ""


def operator_cases() -> Iterator[OperatorCase]:
    """All cases of the installed onnx package, in its order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero while they are made
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        yield _operator_case(case)


def judged(lab: Laboratory, case: OperatorCase) -> tuple[str, str]:
    """Outcome of a case on a backend.

    Returns:
        A word (``pass``, ``unsupported``, ``excluded`` or ``wrong``), and a reason.
    """
    if case.network is None:
        return "excluded", case.excluded
    try:
        refused = lab.check(case.network.model)
    except DLBricksError as error:
        return "wrong", f"check: {error}"
    try:
        found = lab.infer(case.network)
    except UnsupportedError as error:
        return ("unsupported" if refused else "wrong"), f"load: {error}"
    except DLBricksError as error:
        return "wrong", f"{type(error).__name__}: {error}"
    if refused:
        return "wrong", f"runs, yet check says {refused}"
    for name, expected in case.expected.items():
        problem = difference(found[name], expected, _TOLERANCE)
        if problem:
            return "wrong", f"{name}: {problem}"
    return "pass", ""


def _operator_case(case: Any) -> OperatorCase:
    try:
        given, wanted = ([_tensor(value) for value in values] for values in case.data_sets[0])
    except TypeError:
        return OperatorCase(case.name, None, excluded="sequences, optionals and texts")
    values = dict(zip((i.name for i in case.model.graph.input), given, strict=True))
    try:
        network = _network(_with_parameters_inside(case.model, values), case.name, values)
    except (DLBricksError, ValidationError) as error:
        return OperatorCase(case.name, None, excluded=str(error))
    opaque = [layer.opaque for layer in network.model.layers if layer.opaque]
    if opaque:
        return OperatorCase(case.name, None, excluded=opaque[0])
    return OperatorCase(case.name, network, dict(zip(network.model.outputs, wanted, strict=True)))


def _tensor(value: Any) -> Array:
    """A case's value as an array.

    Raises:
        TypeError: If the value is a sequence, an optional, or text.
    """
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic | int | float):
        raise TypeError(type(value))
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        raise TypeError(array.dtype)
    return array


def _with_parameters_inside(proto: ModelProto, values: Mapping[str, Array]) -> ModelProto:
    """The model with its parameters, such as axes, as initializers; the cases feed them."""
    model = ModelProto()
    model.CopyFrom(proto)
    for opset in model.opset_import:  # some claim opset 1 for operators as they are today
        if not opset.domain:
            opset.version = max(opset.version, _OLDEST_OPSET)
    parameters = {
        node.input[position]
        for node in model.graph.node
        for position in operator(f"{node.domain}.{node.op_type}".lstrip(".")).parameters
        if position < len(node.input) and node.input[position] in values
    }
    kept = [info for info in model.graph.input if info.name not in parameters]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(
        numpy_helper.from_array(values[name], name) for name in sorted(parameters)
    )
    return model


def _network(proto: ModelProto, name: str, values: Mapping[str, Any]) -> Network:
    raw = read_model(proto, name=name)
    # Sizes of zero mean "any" in a file; these cases leave others open, and mean zero.
    given = {n: TensorSpec(dtype_name(values[n].dtype), values[n].shape) for n in raw.inputs}
    model = normalize(replace(raw, tensors={**raw.tensors, **given}))
    known = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    known.update(model.constants)
    return Network(
        model,
        weights={weight: known[weight] for weight in model.weights},
        inputs={n: values[n] for n in model.inputs},
    )


# Layers of operators that ONNX Runtime alone has, as texts for tests of backends.

_MS = "com.microsoft"
_GQA = f"{_MS}.GroupQueryAttention<num_heads=4, kv_num_heads=2"
_MHA = f"{_MS}.MultiHeadAttention<num_heads=2"
_ATTENTION = f"{_MS}.Attention<num_heads=2"
_TOTAL = "t = Constant<value = int32 {{{}}}>()"
_SCALES = (
    "sa = Constant<value=float {0.02}>() sb = Constant<value=float {0.03}>() "
    "sc = Constant<value=float {0.05}>() z = Constant<value=uint8 {3}>()"
)

DEFINED: Mapping[str, str] = {
    "MatMulNBits": "(float[2,3,64] x, uint8[24,2,16] w1, float[24,2] w2) => (y)"
    f"{{ y = {_MS}.MatMulNBits<K=64, N=24, bits=4, block_size=32>(x, w1, w2) }}",
    "MatMulNBits with zero points": "(float[3,80] x, uint8[24,3,16] w1, float[24,3] w2,"
    " uint8[24,2] w3) => (y)"
    f"{{ y = {_MS}.MatMulNBits<K=80, N=24, bits=4, block_size=32>(x, w1, w2, w3) }}",
    "MatMulNBits of eight bits": "(float[3,64] x, uint8[24,2,32] w1, float[24,2] w2) => (y)"
    f"{{ y = {_MS}.MatMulNBits<K=64, N=24, bits=8, block_size=32>(x, w1, w2) }}",
    "FusedMatMul": "(float[2,8,3] x, float[2,5,8] z) => (y)"
    f"{{ y = {_MS}.FusedMatMul<transA=1, transB=1, alpha=0.5>(x, z) }}",
    "FusedMatMul of batches": "(float[8,2,3] x, float[2,3,5] z) => (y)"
    f"{{ y = {_MS}.FusedMatMul<transBatchA=1>(x, z) }}",
    "FusedGemm": "(float[3,8] x, float[5,8] w1, float[5] w2) => (y)"
    f'{{ y = {_MS}.FusedGemm<transB=1, activation="Relu">(x, w1, w2) }}',
    "DynamicQuantizeMatMul": "(float[3,8] x, int8[8,5] w1, float[5] w2, float[5] w3) => (y)"
    f'{{ y = {_MS}.DynamicQuantizeMatMul(x, w1, w2, "", w3) }}',
    "MatMulIntegerToFloat": "(float[3,8] x, int8[8,5] w1, float w2) => (y)"
    "{ c, s, z = DynamicQuantizeLinear(x) "
    f"y = {_MS}.MatMulIntegerToFloat(c, w1, s, w2, z) }}",
    "SimplifiedLayerNormalization": "(float[2,3,16] x, float[16] w1) => (y)"
    "{ y = SimplifiedLayerNormalization<axis=-1, epsilon=1e-5>(x, w1) }",
    "SkipSimplifiedLayerNormalization": "(float[2,3,16] x, float[2,3,16] s, float[16] w1)"
    " => (y, z)"
    f"{{ y, m, v, z = {_MS}.SkipSimplifiedLayerNormalization<epsilon=1e-5>(x, s, w1) }}",
    "SkipLayerNormalization": "(float[2,3,16] x, float[2,3,16] s, float[16] w1, float[16] w2,"
    f" float[16] w3) => (y) {{ y = {_MS}.SkipLayerNormalization(x, s, w1, w2, w3) }}",
    "EmbedLayerNormalization": "(int32[2,5] x, int32[2,5] s, float[30,16] w1, float[9,16] w2,"
    " float[2,16] w3, float[16] w4, float[16] w5, int32[2,5] w6) => (y, z)"
    f"{{ y, z = {_MS}.EmbedLayerNormalization(x, s, w1, w2, w3, w4, w5, w6) }}",
    "Gelu": f"(float[2,8] x) => (y) {{ y = {_MS}.Gelu(x) }}",
    "FastGelu": f"(float[2,8] x, float[8] w1) => (y) {{ y = {_MS}.FastGelu(x, w1) }}",
    "BiasGelu": f"(float[2,8] x, float[8] w1) => (y) {{ y = {_MS}.BiasGelu(x, w1) }}",
    "QuickGelu": f"(float[2,8] x) => (y) {{ y = {_MS}.QuickGelu<alpha=1.5>(x) }}",
    "RotaryEmbedding": "(float[2,3,32] x, int64[2,3] p, float[20,4] w1, float[20,4] w2) => (y)"
    f"{{ y = {_MS}.RotaryEmbedding(x, p, w1, w2) }}",
    "RotaryEmbedding of a shift": "(float[2,4,3,8] x, int64[1] p, float[20,4] w1,"
    " float[20,4] w2) => (y)"
    f"{{ y = {_MS}.RotaryEmbedding<interleaved=1>(x, p, w1, w2) }}",
    "RotaryEmbedding of a part": "(float[2,3,32] x, int64[2,3] p, float[20,2] w1, float[20,2] w2)"
    f" => (y) {{ y = {_MS}.RotaryEmbedding<num_heads=4, rotary_embedding_dim=4>(x, p, w1, w2) }}",
    "GroupQueryAttention of a prompt": "(float[2,5,64] q, float[2,5,32] k, float[2,5,32] v,"
    " int32[2] s, float[20,8] w1, float[20,8] w2) => (y, a, b) {"
    f'{_TOTAL.format(5)} y, a, b = {_GQA}, do_rotary=1>(q, k, v, "", "", s, t, w1, w2) }}',
    "GroupQueryAttention of a token": "(float[2,1,64] q, float[2,1,32] k, float[2,1,32] v,"
    " float[2,2,6,16] pk, float[2,2,6,16] pv, int32[2] s, float[20,8] w1, float[20,8] w2)"
    f" => (y, a, b) {{ {_TOTAL.format(7)}"
    f" y, a, b = {_GQA}, do_rotary=1, softcap=5.0>(q, k, v, pk, pv, s, t, w1, w2) }}",
    "GroupQueryAttention of a window": "(float[1,4,64] q, float[1,2,6,8] pk, float[1,2,6,8] pv,"
    f" int32[1] s) => (y, a, b) {{ {_TOTAL.format(10)}"
    f' y, a, b = {_GQA}, local_window_size=3, scale=0.3>(q, "", "", pk, pv, s, t) }}',
    "MultiHeadAttention": "(float[2,5,16] q, float[2,7,16] k, float[2,7,16] v, float[48] w1,"
    f" int32[2,7] m) => (y) {{ y = {_MHA}>(q, k, v, w1, m) }}",
    "MultiHeadAttention with a cache": "(float[2,3,16] q, float[2,3,16] k, float[2,3,16] v,"
    " float[1,1,3,9] b, float[2,2,6,8] pk, float[2,2,6,8] pv) => (y, a, c)"
    f'{{ y, a, c = {_MHA}, unidirectional=1>(q, k, v, "", "", b, pk, pv) }}',
    "MultiHeadAttention over an encoder": "(float[2,3,16] q, float[2,2,7,8] k, float[2,2,7,8] v)"
    f" => (y) {{ y = {_MHA}>(q, k, v) }}",
    "Attention": "(float[2,5,12] x, float[12,48] w1, float[48] w2, int32[2,5] m) => (y)"
    f"{{ y = {_ATTENTION}>(x, w1, w2, m) }}",
    "Attention with lengths": "(float[2,5,12] x, float[12,48] w1, float[48] w2, int32[2] m)"
    f" => (y) {{ y = {_ATTENTION}, unidirectional=1>(x, w1, w2, m) }}",
    "Attention with a cache": "(float[2,1,12] x, float[12,48] w1, float[48] w2,"
    " float[2,2,2,6,8] p) => (y, a)"
    f'{{ y, a = {_ATTENTION}, unidirectional=1>(x, w1, w2, "", p) }}',
    "QAttention": "(uint8[2,5,12] x, int8[12,48] w1, float[48] w2, float w3, float w4, int32[2] m)"
    f" => (y) {{ y = {_MS}.QAttention<num_heads=2>(x, w1, w2, w3, w4, m) }}",
    "QAttention with a mask": "(uint8[2,5,12] x, int8[12,48] w1, float[48] w2, float w3, float w4,"
    f" int32[2,5] m) => (y) {{ y = {_MS}.QAttention<num_heads=2>(x, w1, w2, w3, w4, m) }}",
    "QGemm": "(uint8[3,8] a, int8[8,5] w1, int32[5] w2) => (y)"
    f"{{ {_SCALES} zb = Constant<value=int8 {{0}}>() "
    f"y = {_MS}.QGemm(a, sa, z, w1, sb, zb, w2, sc, z) }}",
    "QGemm with floats as results": "(uint8[3,8] a, int8[8,5] w1, int32[5] w2) => (y)"
    f"{{ {_SCALES} zb = Constant<value=int8 {{0}}>() "
    f"y = {_MS}.QGemm(a, sa, z, w1, sb, zb, w2) }}",
    "QLinearAdd": f"(uint8[2,8] a, uint8[2,8] b) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearAdd(a, sa, z, b, sb, z, sc, z) }}",
    "QLinearMul": f"(uint8[2,8] a, uint8[8] b) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearMul(a, sa, z, b, sb, z, sc, z) }}",
    "QLinearSigmoid": f"(uint8[2,8] a) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearSigmoid(a, sa, z, sb, z) }}",
    "QLinearLeakyRelu": f"(uint8[2,8] a) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearLeakyRelu<alpha=0.2>(a, sa, z, sb, z) }}",
    "QLinearSoftmax": f"(uint8[2,8] a) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearSoftmax<opset=13>(a, sa, z, sb, z) }}",
    "QLinearGlobalAveragePool": f"(uint8[2,3,4,4] a) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearGlobalAveragePool(a, sa, z, sb, z) }}",
    "QLinearAveragePool": f"(uint8[2,3,7,7] a) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearAveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>"
    "(a, sa, z, sb, z) }",
    "QLinearConcat": f"(uint8[2,8] a, uint8[2,3] b) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearConcat<axis=1>(sc, z, a, sa, z, b, sb, z) }}",
    "QLinearWhere": f"(bool[2,8] c, uint8[2,8] a, uint8[2,8] b) => (y) {{ {_SCALES}"
    f" y = {_MS}.QLinearWhere(c, a, sa, z, b, sb, z, sc, z) }}",
}
"""Layers that have a definition in ONNX, by name. Inputs whose names begin with ``w`` are weights,
as in :mod:`dlbricks_testing.cases`."""

UNDEFINED: Mapping[str, str] = {
    "GatherBlockQuantized": "(int64[2,3] i, uint8[20,32] w1, float[20,2] w2) => (y)"
    f"{{ y = {_MS}.GatherBlockQuantized<bits=4, block_size=32>(w1, i, w2) }}",
    "FusedConv": "(float[2,6,9,9] x, float[8,3,3,3] w1, float[8] w2, float[2,8,5,5] z) => (y)"
    f"{{ y = {_MS}.FusedConv<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], group=2, "
    'activation="Relu">(x, w1, w2, z) }',
    "FusedConv that says little": "(float[2,3,9,9] x, float[8,3,3,3] w1) => (y)"
    f'{{ y = {_MS}.FusedConv<activation="HardSigmoid", activation_params=[0.2, 0.5]>(x, w1) }}',
    "FusedConv with padding of its own": "(float[2,3,9,9] x, float[8,3,3,3] w1) => (y)"
    f"{{ y = {_MS}.FusedConv<kernel_shape=[3,3], strides=[2,2], "
    'auto_pad="SAME_UPPER", activation="Relu">(x, w1) }',
    "NhwcMaxPool": "(uint8[2,7,7,3] x) => (y)"
    f"{{ y = {_MS}.NhwcMaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) }}",
    "NhwcMaxPool, rounded up": "(uint8[2,8,8,3] x) => (y)"
    f"{{ y = {_MS}.NhwcMaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x) }}",
    "DynamicQuantizeLSTM": "(float[4,2,6] x, int8[1,6,32] w1, int8[1,8,32] w2, float[1,64] w3,"
    " float[1] w4, int8[1] w5, float[1] w6, int8[1] w7) => (y, h, c)"
    f"{{ y, h, c = {_MS}.DynamicQuantizeLSTM<hidden_size=8>"
    '(x, w1, w2, w3, "", "", "", "", w4, w5, w6, w7) }',
    "MoE": "(float[3,8] x, float[3,4] r, float[4,16,8] w1, float[4,8,16] w2) => (y)"
    f'{{ y = {_MS}.MoE<k=2>(x, r, w1, "", w2) }}',
}
"""Layers that only ONNX Runtime runs."""


_WITHOUT_LAYERS = frozenset({
    "BlackmanWindow", "CastLike", "ConcatFromSequence", "Constant", "ConstantOfShape", "Dropout",
    "EyeLike", "HammingWindow", "HannWindow", "If", "Loop", "MelWeightMatrix", "Optional",
    "OptionalGetElement", "OptionalHasElement", "Range", "Scan", "Scatter", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "SequenceMap", "Shape", "Size", "SplitToSequence", "Upsample",
})  # fmt: skip
"""Operators that the canonical form does not have: they are folded, written out, or opaque."""


def operators_with_layers() -> frozenset[str]:
    """Operators of ``ai.onnx`` that layers in canonical form may have."""
    return frozenset(op for op in OPERATORS if "." not in op) - _WITHOUT_LAYERS
