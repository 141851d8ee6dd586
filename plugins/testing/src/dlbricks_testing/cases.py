"""Small networks that every backend must run, in ONNX's text form.

Inputs whose names begin with ``w`` are weights. A text is read, normalized and given seeded
values. The ONNX reference evaluator computes the expected results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

from dlbricks_core.bricks import extract
from dlbricks_core.bricks.signature import with_cold
from dlbricks_core.ir import (
    Array,
    CanonicalModel,
    Layer,
    Network,
    TensorSpec,
    numpy_dtype,
    read_model,
    to_onnx,
)
from dlbricks_core.operators.table import made_into_indices
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

#: Networks that every backend must run, unless it declares why it does not.
COMMON: Mapping[str, str] = MappingProxyType({
    # Convolutions
    "conv": "(float[1,3,9,8] x, float[4,3,3,3] w1, float[4] w2) => (y)"
            "{ y = Conv<pads=[1,1,1,1]>(x, w1, w2) }",
    "conv_without_bias": "(float[2,3,8,8] x, float[4,3,1,1] w1) => (y) { y = Conv(x, w1) }",
    "conv_strided_dilated": "(float[1,2,11,11] x, float[3,2,3,3] w1) => (y)"
                            "{ y = Conv<strides=[2,2], dilations=[2,2], pads=[2,2,2,2]>(x, w1) }",
    "conv_uneven_pads": "(float[1,2,7,7] x, float[3,2,3,3] w1) => (y)"
                        "{ y = Conv<pads=[0,1,1,2]>(x, w1) }",
    "conv_grouped": "(float[1,4,6,6] x, float[6,2,3,3] w1) => (y) { y = Conv<group=2>(x, w1) }",
    "conv_depthwise": "(float[1,4,6,6] x, float[4,1,3,3] w1, float[4] w2) => (y)"
                      "{ y = Conv<group=4, pads=[1,1,1,1]>(x, w1, w2) }",
    "conv_1d": "(float[1,3,10] x, float[4,3,3] w1) => (y) { y = Conv(x, w1) }",
    "conv_3d": "(float[1,2,4,5,5] x, float[3,2,2,2,2] w1) => (y) { y = Conv(x, w1) }",
    "conv_transpose": "(float[1,3,5,5] x, float[3,2,3,3] w1, float[2] w2) => (y)"
                      "{ y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, w1, w2) }",
    # Matrices
    "gemm": "(float[2,6] x, float[4,6] w1, float[4] w2) => (y) { y = Gemm<transB=1>(x, w1, w2) }",
    "gemm_scaled": "(float[6,2] x, float[6,4] w1, float[1,4] w2) => (y)"
                   "{ y = Gemm<transA=1, alpha=0.5, beta=2.0>(x, w1, w2) }",
    "matmul": "(float[3,5] x, float[5,4] w1) => (y) { y = MatMul(x, w1) }",
    "matmul_batched": "(float[2,3,4,5] a, float[2,3,5,4] b) => (y) { y = MatMul(a, b) }",
    "matmul_broadcast": "(float[2,1,4,5] a, float[3,5,4] b) => (y) { y = MatMul(a, b) }",
    "matmul_vector": "(float[3,4,5] a, float[5] w1) => (y) { y = MatMul(a, w1) }",
    # Pooling
    "max_pool": "(float[1,3,8,8] x) => (y) { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }",
    "max_pool_padded": "(float[1,3,7,7] x) => (y)"
                       "{ y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) }",
    "average_pool": "(float[1,3,8,8] x) => (y)"
                    "{ y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x) }",
    "average_pool_without_pads": "(float[1,3,7,7] x) => (y)"
                                 "{ y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x) }",
    "average_pool_with_pads": "(float[1,3,7,7] x) => (y)"
                              "{ y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1],"
                              " count_include_pad=1>(x) }",
    "global_average_pool": "(float[2,3,5,5] x) => (y) { y = GlobalAveragePool(x) }",
    "global_max_pool": "(float[2,3,5,5] x) => (y) { y = GlobalMaxPool(x) }",
    # Normalization
    "batch_normalization": "(float[2,3,4,4] x, float[3] w1, float[3] w2, float[3] w3, float[3] w4)"
                           "=> (y) { y = BatchNormalization(x, w1, w2, w3, w4) }",
    "layer_normalization": "(float[2,5,8] x, float[8] w1, float[8] w2) => (y)"
                           "{ y = LayerNormalization(x, w1, w2) }",
    "instance_normalization": "(float[2,3,4,4] x, float[3] w1, float[3] w2) => (y)"
                              "{ y = InstanceNormalization(x, w1, w2) }",
    "group_normalization": "(float[2,6,4,4] x, float[6] w1, float[6] w2) => (y)"
                           "{ y = GroupNormalization<num_groups=3>(x, w1, w2) }",
    "lrn": "(float[1,8,4,4] x) => (y) { y = LRN<size=5>(x) }",
    # Activations
    "relu": "(float[2,8] x) => (y) { y = Relu(x) }",
    "sigmoid": "(float[2,8] x) => (y) { y = Sigmoid(x) }",
    "tanh": "(float[2,8] x) => (y) { y = Tanh(x) }",
    "leaky_relu": "(float[2,8] x) => (y) { y = LeakyRelu<alpha=0.2>(x) }",
    "prelu": "(float[1,4,3,3] x, float[4,1,1] w1) => (y) { y = PRelu(x, w1) }",
    "elu": "(float[2,8] x) => (y) { y = Elu(x) }",
    "gelu": "(float[2,8] x) => (y) { y = Gelu(x) }",
    "gelu_by_tanh": '(float[2,8] x) => (y) { y = Gelu<approximate="tanh">(x) }',
    "hard_swish": "(float[2,8] x) => (y) { y = HardSwish(x) }",
    "hard_sigmoid": "(float[2,8] x) => (y) { y = HardSigmoid(x) }",
    "softplus": "(float[2,8] x) => (y) { y = Softplus(x) }",
    "clip": "(float[2,8] x) => (y) { low = Constant<value_float=-0.5>()"
            " high = Constant<value_float=0.5>() y = Clip(x, low, high) }",
    "softmax": "(float[2,3,8] x) => (y) { y = Softmax(x) }",
    "softmax_over_channels": "(float[2,5,3,3] x) => (y) { y = Softmax<axis=1>(x) }",
    "log_softmax": "(float[2,8] x) => (y) { y = LogSoftmax(x) }",
    # Elementwise
    "add": "(float[1,4,5,5] a, float[1,4,5,5] b) => (y) { y = Add(a, b) }",
    "add_broadcast": "(float[2,1,5] a, float[3,1] b) => (y) { y = Add(a, b) }",
    "sub": "(float[2,3] a, float[2,3] b) => (y) { y = Sub(a, b) }",
    "mul_channels": "(float[1,4,5,5] x, float[1,4,1,1] s) => (y) { y = Mul(x, s) }",
    "div_scalar": "(float[2,3] x, float w1) => (y) { y = Div(x, w1) }",
    "pow": "(float[2,3] x) => (y) { two = Constant<value_float=2.0>() y = Pow(x, two) }",
    "maximum": "(float[2,3] a, float[3] b) => (y) { y = Max(a, b) }",
    "minimum": "(float[2,3] a, float[3] b) => (y) { y = Min(a, b) }",
    "sum_of_three": "(float[2,3] a, float[2,3] b, float[2,3] c) => (y) { y = Sum(a, b, c) }",
    "exp": "(float[2,8] x) => (y) { y = Exp(x) }",
    "log": "(float[2,8] x) => (y) { y = Log(x) }",
    "sqrt": "(float[2,8] x) => (y) { y = Sqrt(x) }",
    "erf": "(float[2,8] x) => (y) { y = Erf(x) }",
    "abs": "(float[2,8] x) => (y) { y = Abs(x) }",
    "neg": "(float[2,8] x) => (y) { y = Neg(x) }",
    "floor": "(float[2,8] x) => (y) { y = Floor(x) }",
    "reciprocal": "(float[2,8] x) => (y) { y = Reciprocal(x) }",
    # Logic and other element types
    "greater": "(float[2,8] a, float[2,8] b) => (y) { y = Greater(a, b) }",
    "equal_integers": "(int64[2,8] a, int64[2,8] b) => (y) { y = Equal(a, b) }",
    "and": "(bool[2,8] a, bool[2,8] b) => (y) { y = And(a, b) }",
    "not": "(bool[2,8] x) => (y) { y = Not(x) }",
    "where": "(bool[2,8] c, float[2,8] a, float[2,8] b) => (y) { y = Where(c, a, b) }",
    "add_integers": "(int64[2,8] a, int64[8] b) => (y) { y = Add(a, b) }",
    "cast_to_integers": "(float[2,8] x) => (y) { y = Cast<to=7>(x) }",
    "cast_from_integers": "(int64[2,8] x) => (y) { y = Cast<to=1>(x) }",
    # Shapes
    "reshape": "(float[2,3,4] x) => (y) { s = Constant<value_ints=[4,6]>() y = Reshape(x, s) }",
    "flatten": "(float[2,3,4] x) => (y) { y = Flatten(x) }",
    "transpose": "(float[2,3,4] x) => (y) { y = Transpose<perm=[2,0,1]>(x) }",
    "squeeze": "(float[2,1,4] x) => (y) { s = Constant<value_ints=[1]>() y = Squeeze(x, s) }",
    "unsqueeze": "(float[2,4] x) => (y) { s = Constant<value_ints=[0,2]>() y = Unsqueeze(x, s) }",
    "slice": "(float[4,6] x) => (y) { a = Constant<value_ints=[1,0]>()"
             " b = Constant<value_ints=[4,6]>() c = Constant<value_ints=[0,1]>()"
             " d = Constant<value_ints=[1,2]>() y = Slice(x, a, b, c, d) }",
    "slice_backwards": "(float[4,6] x) => (y) { a = Constant<value_ints=[-1]>()"
                       " b = Constant<value_ints=[-100]>() c = Constant<value_ints=[1]>()"
                       " d = Constant<value_ints=[-1]>() y = Slice(x, a, b, c, d) }",
    "concat": "(float[2,3] a, float[2,5] b) => (y) { y = Concat<axis=1>(a, b) }",
    "split": "(float[2,7] x) => (a, b) { s = Constant<value_ints=[3,4]>()"
             " a, b = Split<axis=1>(x, s) }",
    "expand": "(float[3,1] x) => (y) { s = Constant<value_ints=[2,3,4]>() y = Expand(x, s) }",
    "tile": "(float[2,3] x) => (y) { s = Constant<value_ints=[2,2]>() y = Tile(x, s) }",
    "pad": "(float[2,3] x) => (y) { s = Constant<value_ints=[0,1,2,1]>() y = Pad(x, s) }",
    "pad_by_reflection": "(float[1,2,5,5] x) => (y)"
                         "{ s = Constant<value_ints=[0,0,1,1,0,0,2,1]>()"
                         ' y = Pad<mode="reflect">(x, s) }',
    "depth_to_space": "(float[1,8,3,3] x) => (y) { y = DepthToSpace<blocksize=2>(x) }",
    # Reductions
    "reduce_mean": "(float[2,3,4] x) => (y) { s = Constant<value_ints=[1,2]>()"
                   " y = ReduceMean(x, s) }",
    "reduce_sum_dropped_axis": "(float[2,3,4] x) => (y) { s = Constant<value_ints=[1]>()"
                               " y = ReduceSum<keepdims=0>(x, s) }",
    "reduce_max": "(float[2,3,4] x) => (y) { s = Constant<value_ints=[2]>() y = ReduceMax(x, s) }",
    "reduce_to_scalar": "(float[2,3] x) => (y) { y = ReduceSum<keepdims=0>(x) }",
    "reduce_l2": "(float[2,3,4] x) => (y) { s = Constant<value_ints=[2]>() y = ReduceL2(x, s) }",
    "arg_max": "(float[3,7] x) => (y) { y = ArgMax<axis=1, keepdims=0>(x) }",
    "cumulative_sum": "(float[3,7] x) => (y) { s = Constant<value_int=1>() y = CumSum(x, s) }",
    "top_k": "(float[3,7] x) => (y, i) { k = Constant<value_ints=[3]>() y, i = TopK(x, k) }",
    # Indexing
    "gather_embedding": "(int64[2,5] i, float[11,4] w1) => (y) { y = Gather(w1, i) }",
    "gather_axis": "(float[3,6] x) => (y) { i = Constant<value_ints=[4,0,4]>()"
                   " y = Gather<axis=1>(x, i) }",
    # Resizing
    "resize_nearest": "(float[1,2,3,4] x) => (y) { s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()"
                      ' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",'
                      ' nearest_mode="floor">(x, , s) }',
    "resize_linear": "(float[1,2,4,4] x) => (y) { s = Constant<value_ints=[1,2,7,9]>()"
                     ' y = Resize<mode="linear">(x, , , s) }',
    # Recurrent
    "lstm": "(float[5,2,4] x, float[1,12,4] w1, float[1,12,3] w2, float[1,24] w3) => (y, h, c)"
            "{ y, h, c = LSTM<hidden_size=3>(x, w1, w2, w3) }",
    "lstm_both_ways": "(float[4,1,3] x, float[2,8,3] w1, float[2,8,2] w2) => (y)"
                      '{ y = LSTM<hidden_size=2, direction="bidirectional">(x, w1, w2) }',
    "gru": "(float[5,2,4] x, float[1,9,4] w1, float[1,9,3] w2, float[1,18] w3) => (y, h)"
           "{ y, h = GRU<hidden_size=3, linear_before_reset=1>(x, w1, w2, w3) }",
    # Graphs
    "residual_block": "(float[1,4,6,6] x, float[4,4,3,3] w1, float[4,4,3,3] w2) => (y)"
                      "{ a = Conv<pads=[1,1,1,1]>(x, w1) b = Relu(a)"
                      " c = Conv<pads=[1,1,1,1]>(b, w2) d = Add(c, x) y = Relu(d) }",
    "attention_by_hand": "(float[1,2,5,4] q, float[1,2,5,4] k, float[1,2,5,4] v) => (y)"
                         "{ t = Transpose<perm=[0,1,3,2]>(k) s = MatMul(q, t)"
                         " h = Constant<value_float=0.5>() c = Mul(s, h) p = Softmax(c)"
                         " y = MatMul(p, v) }",
    "several_outputs": "(float[2,3] x) => (b, y, a)"
                       "{ a = Relu(x) b = Tanh(a) y = Add(a, b) }",
    "output_is_input": "(float[2,3] x) => (y, x) { y = Relu(x) }",
    "unused_input": "(float[2,3] x, float[2] z) => (y) { y = Relu(x) }",
    "one_input_twice": "(float[3,3] x) => (y) { y = MatMul(x, x) }",
    "shared_weights": "(float[2,4] x, float[4,4] w1) => (y) { a = MatMul(x, w1) b = Tanh(a)"
                      " y = MatMul(b, w1) }",
    "no_axes": "(float x, float w1) => (y) { y = Add(x, w1) }",
})  # fmt: skip

#: Networks that many frameworks cannot run. A backend runs them right, or both ``check`` and
#: ``load`` refuse them.
UNCOMMON: Mapping[str, str] = MappingProxyType({
    "half_precision": "(float16[2,8] a, float16[8,3] w1) => (y) { y = MatMul(a, w1) }",
    "double_precision": "(double[2,8] a, double[2,8] b) => (y) { y = Add(a, b) }",
    "double_precision_product": "(double[2,8] a, double[8,3] w1) => (y) { y = MatMul(a, w1) }",
    "double_precision_range": "(double[2,2] a, double[2,2] b) => (y) { y = Mul(a, b) }",
    "large_integers": "(int64[2,2] a, int64[2,2] b) => (y) { y = Add(a, b) }",
    "large_integers_and_a_weight": "(int64[2,2] a, int64[2] w1) => (y) { y = Mul(a, w1) }",
    "large_integers_compared": "(int64[2,2] a, int64[2,2] b) => (y) { y = Greater(a, b) }",
    "large_integers_moved": "(int64[2,2] a, int64[2,2] b) => (y)"
                            "{ t = Transpose<perm=[1,0]>(a) y = Concat<axis=0>(t, b) }",
    "cast_to_large_integers": "(float[2,2] a) => (y) { y = Cast<to=7>(a) }",
    "bfloat16": "(bfloat16[2,8] a, bfloat16[2,8] b) => (y) { y = Add(a, b) }",
    "small_integers": "(int8[2,8] a, int8[2,8] b) => (y) { y = Add(a, b) }",
    "unsigned_integers": "(uint32[2,8] a, uint32[2,8] b) => (y) { y = Add(a, b) }",
    "remainder": "(int64[2,8] a, int64[2,8] b) => (y) { y = Mod(a, b) }",
    "gather_elements": "(float[3,4] x, int64[3,2] i) => (y) { y = GatherElements<axis=1>(x, i) }",
    "gather_nd": "(float[3,4,2] x, int64[5,2] i) => (y) { y = GatherND(x, i) }",
    "columns_as_indices": "(float[6,3] x, float[5,2] w1, float[900,2] w2) => (y, z)"
                          "{ s = Constant<value_ints=[1,1,1]>() a, b, z = Split<axis=1>(x, s)"
                          " i = Cast<to=7>(a) j = Cast<to=7>(b) p = Gather(w1, i)"
                          " q = Gather(w2, j) y = Concat<axis=2>(p, q) }",
    "differences_as_indices": "(int64[6,2] x, float[50,3] w1) => (y)"
                              "{ s = Constant<value_ints=[1,1]>() a, b = Split<axis=1>(x, s)"
                              " d = Sub(b, a) y = Gather(w1, d) }",
    "scatter_nd": "(float[4,3] x, float[2,3] u) => (y) { i = Constant<value_ints=[2,0]>()"
                  " a = Constant<value_ints=[1]>() j = Unsqueeze(i, a)"
                  " y = ScatterND(x, j, u) }",
    "grid_sample": "(float[1,2,4,4] x, float[1,3,3,2] g) => (y) { y = GridSample(x, g) }",
    "einsum": '(float[2,3] a, float[3,4] b) => (y) { y = Einsum<equation="ij,jk->ki">(a, b) }',
    "quantize": "(float[2,8] x, float w1, uint8 w2) => (y) { y = QuantizeLinear(x, w1, w2) }",
    "dequantize": "(uint8[2,8] x, float w1, uint8 w2) => (y)"
                  "{ y = DequantizeLinear(x, w1, w2) }",
    "matmul_integer": "(uint8[2,8] x, int8[8,3] w1) => (y) { y = MatMulInteger(x, w1) }",
    "trilu": "(float[4,4] x) => (y) { y = Trilu<upper=0>(x) }",
    "one_hot": "(int64[3] i, float[2] w1) => (y) { d = Constant<value_int=5>()"
               " y = OneHot(i, d, w1) }",
    "arg_max_last": "(float[3,7] x) => (y) { y = ArgMax<axis=1, select_last_index=1>(x) }",
    "resize_cubic": "(float[1,2,6,6] x) => (y) { s = Constant<value_ints=[1,2,9,9]>()"
                    ' y = Resize<mode="cubic">(x, , , s) }',
    "determinant": "(float[2,3,3] x) => (y) { y = Det(x) }",
    "bit_shift": '(uint8[2,8] a, uint8[2,8] b) => (y) { y = BitShift<direction="LEFT">(a, b) }',
    "is_inf": "(float[2,8] x) => (y) { y = IsInf(x) }",
    "mish": "(float[2,8] x) => (y) { y = Mish(x) }",
    "rnn": "(float[5,2,4] x, float[1,3,4] w1, float[1,3,3] w2) => (y)"
           "{ y = RNN<hidden_size=3>(x, w1, w2) }",
    "output_is_weight": "(float[2,3] x, float[2,3] w1) => (y, w1) { y = Add(x, w1) }",
    "no_elements": "(float[4,3] x) => (y) { a = Constant<value_ints=[0]>() e = Slice(x, a, a)"
                   " y = Relu(e) }",
})  # fmt: skip

#: Networks for backends that rewrite models; the rewritten graphs are cut into bricks.
REWRITTEN: Mapping[str, str] = MappingProxyType({
    "convolutions": "(float[1,3,16,16] x, float[16,3,3,3] w1, float[16] w2, float[16] w3,"
                    " float[16] w4, float[16] w5, float[16] w6, float[16,16,3,3] w7,"
                    " float[10,16] w8, float[10] w9) => (y)"
                    "{ a = Conv<pads=[1,1,1,1]>(x, w1, w2)"
                    " b = BatchNormalization(a, w3, w4, w5, w6) c = Relu(b)"
                    " d = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)"
                    " e = Conv<pads=[1,1,1,1]>(d, w7) f = Add(e, d) g = Relu(f)"
                    " h = GlobalAveragePool(g) i = Flatten(h)"
                    " j = Gemm<transB=1>(i, w8, w9) y = Softmax(j) }",
    "attention": "(float[1,6,16] x, float[16] w1, float[16] w2, float[16,48] w3, float[48] w4,"
                 " float[16,16] w5) => (y)"
                 "{ n = LayerNormalization(x, w1, w2) m = MatMul(n, w3) p = Add(m, w4)"
                 " s = Constant<value_ints=[16,16,16]>() q, k, v = Split<axis=2>(p, s)"
                 " t = Transpose<perm=[0,2,1]>(k) a = MatMul(q, t)"
                 " f = Constant<value_float=0.25>() b = Mul(a, f) c = Softmax(b)"
                 " d = MatMul(c, v) e = MatMul(d, w5) g = Gelu(e) y = Add(g, x) }",
})  # fmt: skip

#: Values, by case and tensor, that show whether the element type is kept.
_VALUES: Mapping[str, Mapping[str, Sequence[Sequence[float]] | Sequence[int]]] = MappingProxyType({
    "double_precision_range": {
        "a": [[1e200, -1e-200], [3e150, 1.0]], "b": [[1e50, 1e-50], [-2e100, 1e-300]],
    },
    "large_integers": {
        "a": [[2**40 + 1, -(2**33)], [2**53 + 1, 3]], "b": [[2**40, 2**31], [2, -(2**62)]],
    },
    "large_integers_and_a_weight": {
        "a": [[2**20 + 1, -3], [5, 2**30 + 1]], "w1": [2**33 + 1, 2**31 + 7],
    },
    "large_integers_compared": {
        "a": [[2**53 + 1, 2**24 + 1], [2**32, -(2**40)]],
        "b": [[2**53, 2**24], [0, -(2**40) - 1]],
    },
    "large_integers_moved": {
        "a": [[2**40 + 1, -(2**33)], [2**53 + 1, 3]], "b": [[2**32, 2**31], [2**62 + 1, -1]],
    },
    "cast_to_large_integers": {"a": [[2.0**40, -(2.0**33)], [3.7, -3.7]]},
})  # fmt: skip

_ALL: Mapping[str, str] = MappingProxyType({**COMMON, **UNCOMMON, **REWRITTEN})

_HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> {name} {text}'


@cache
def network(name: str, seed: int = 0) -> Network:
    """A case in canonical form, with its own values if it has any, and seeded values otherwise."""
    drawn = build(_ALL[name], name, seed)
    given = {
        tensor: np.array(values, numpy_dtype(drawn.model.tensors[tensor].dtype))
        for tensor, values in _VALUES.get(name, {}).items()
    }
    model = drawn.model
    return Network(
        replace(model, constants={n: given.get(n, v) for n, v in model.constants.items()}),
        {tensor: given.get(tensor, value) for tensor, value in drawn.weights.items()},
        {tensor: given.get(tensor, value) for tensor, value in drawn.inputs.items()},
    )


def build(text: str, name: str = "case", seed: int = 0) -> Network:
    """A network in canonical form, from the text of its graph, with seeded values."""
    raw = read_model(onnx.parser.parse_model(_HEADER.format(name=name, text=text)), name=name)
    weights = {n for n in raw.inputs if n.startswith("w")}
    raw = replace(
        raw,
        inputs=tuple(n for n in raw.inputs if n not in weights),
        weights=raw.weights | weights,
    )
    drawn = materialize(normalize(raw), seed)
    rng = np.random.default_rng(seed)
    fixed = made_into_indices(drawn.model.layers)
    varied = {n: value if n in fixed else _varied(value, rng) for n, value in drawn.inputs.items()}
    return replace(drawn, inputs=varied)


def cold_cache() -> Network:
    """A row ``x`` that joins a decoder's ``past``, which is in no cache of the processor."""
    given = build("(float[300,64] past, float[1,64] x) => (float[301,64] present) "
                  "{ present = Concat<axis=0>(past, x) }")  # fmt: skip
    return replace(given, model=with_cold(given.model, {"past", "present"}))


def _varied(value: Array, rng: np.random.Generator) -> Array:
    """The value, with small integers in place of ones, which all integers are drawn as."""
    if value.dtype.kind not in "iu" or value.size == 0 or not np.all(value == 1):
        return value
    return rng.integers(1, 6, value.shape).astype(value.dtype)


@cache
def expected(name: str, seed: int = 0) -> dict[str, Array]:
    """Outputs that a case must have, by name."""
    return evaluate(network(name, seed))


def evaluate(given: Network) -> dict[str, Array]:
    """Outputs of a network, by name, as the ONNX reference evaluator computes them."""
    evaluator = ReferenceEvaluator(to_onnx(given.model, given.weights))
    results = evaluator.run(None, dict(given.inputs))
    return dict(zip(given.model.outputs, map(np.asarray, results), strict=True))


def odd_model(*operators: str) -> CanonicalModel:
    """A chain of elementwise layers, whose operators need not exist."""
    spec = TensorSpec("float32", (2, 3))
    names = [f"t{i}" for i in range(len(operators) + 1)]
    layers = [
        Layer(op, (names[i],), (names[i + 1],), name=f"{op}_{i}") for i, op in enumerate(operators)
    ]
    return CanonicalModel(
        name="odd",
        layers=tuple(layers),
        inputs=(names[0],),
        outputs=(names[-1],),
        tensors=dict.fromkeys(names, spec),
        opsets={"": 21},
    )


_TOLERANCES = {"float64": 1e-6, "complex128": 1e-6}


def brick(
    graph: CanonicalModel, indices: Sequence[int], values: Mapping[str, Array]
) -> tuple[Network, dict[str, str]]:
    """Some layers of a graph as a network of their own, with the graph's values.

    Args:
        graph: The graph.
        indices: Indices of the layers, in the order in which they run.
        values: Values of the graph's tensors that the layers read, by name.

    Returns:
        The network, and the graph's name of each of its tensors.
    """
    model = extract(graph, indices, "brick", exact=True)
    pairs = zip(model.layers, (graph.layers[index] for index in indices), strict=True)
    names = {
        new: old
        for own, layer in pairs
        for new, old in zip(
            (*own.inputs, *own.outputs), (*layer.inputs, *layer.outputs), strict=True
        )
    }
    weights = {name: values[names[name]] for name in model.weights}
    return Network(model, weights, {name: values[names[name]] for name in model.inputs}), names


def differences(
    found: Mapping[str, Array], wanted: Mapping[str, Array], tolerance: float
) -> dict[str, str]:
    """Differences between results, by name; see :func:`difference`."""
    problems = {name: difference(found[name], wanted[name], tolerance) for name in wanted}
    return {name: problem for name, problem in problems.items() if problem}


def difference(found: Array, wanted: Array, tolerance: float) -> str:
    """Difference between two results in one line; empty if they agree.

    Args:
        found: Result of the backend.
        wanted: Result as it must be.
        tolerance: Largest error of float32, relative to the largest value. Shorter floats may err
            ten times as much, longer floats a millionth of it. Other types must be equal.
    """
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind in "biu":
        wrong = int(np.count_nonzero(found != wanted))
        return f"{wrong} of {wanted.size} elements differ" if wrong else ""
    tolerance *= _TOLERANCES.get(wanted.dtype.name, 1 if wanted.dtype.itemsize >= 4 else 10)
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    one, other = found.astype(kind), wanted.astype(kind)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return "infinities or NaN are in other places"
    scale = np.max(np.abs(other[finite]), initial=0.0)
    error = np.max(np.abs(one[finite] - other[finite]), initial=0.0)
    # NaN compares false with everything: the result must be shown to be near.
    return (
        "" if error <= tolerance * scale else f"off by {error:.2g} where values reach {scale:.2g}"
    )
