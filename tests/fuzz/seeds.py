"""Small models of many kinds, for mutations to begin with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

_HEAD = '<ir_version: 8, opset_import: ["" : {opset}{more}]>\n'

_CONVOLUTIONS = """
g (float[N,3,16,16] x) => (float[N,10] y)
<float[4,3,3,3] w, float[4] s, float[10,4] d>
{ a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x, w)
  b = BatchNormalization(a, s, s, s, s)  c = Relu(b)
  e = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(c)
  t = ConvTranspose<kernel_shape=[3,3], auto_pad="SAME_UPPER", group=4>(e, tw)
  f = AveragePool<kernel_shape=[3,3], auto_pad="SAME_LOWER">(t)
  l = LRN<size=3>(f)  u = InstanceNormalization(l, s, s)
  h = GlobalAveragePool(u)  i = Flatten<axis=1>(h)  y = Gemm<transB=1, alpha=0.5>(i, d, k) }"""

_ATTENTION = """
g (int64[batch,sequence] ids, float[batch,sequence] mask) => (float[batch,sequence,8] y)
<float[50,8] table, float[8,8] w, float[8] s, int64[1] axis = {1}, int64[4] heads = {0,0,2,4},
 int64[1] minus = {-1}, int64[2] ends = {0, 2}, int64[2] two = {1, 2}, int64 one = {1}>
{ e = Gather(table, ids)  sh = Shape(ids)  n = Gather(sh, axis)  lim = Squeeze(n, axis0)
  p = Range(zero, lim, one)  pe = Gather(table, p)  x = Add(e, pe)
  l = LayerNormalization<axis=-1>(x, s, s)  q = MatMul(l, w)  r = Reshape(q, heads)
  t = Transpose<perm=[0,2,1,3]>(r)  k = Transpose<perm=[0,2,3,1]>(r)  m = MatMul(t, k)
  u = Unsqueeze(mask, two)  a = Add(m, u)  soft = Softmax<axis=-1>(a)  o = MatMul(soft, t)
  b = Transpose<perm=[0,2,1,3]>(o)  c = Concat<axis=0>(sh, minus)  y = Reshape(b, c) }"""

_CONTROL = """
g (float[1,4] x, bool open, int64 trips) => (float[r] z, float[1,4] v, float[1,4] free,
   float[3,1,4] o)
<bool yes = {1}, bool no = {0}, int64 three = {3}, float[3,4] rows>
{ y = If(yes) < then_branch = a () => (float[4] i)
       { j = If(no) < then_branch = b () => (float[1,4] c) { c = Identity(x) },
                      else_branch = d () => (float[1,4] e) { e = Tanh(x) } >
         ax = Constant<value_ints=[0]>()  i = Squeeze(j, ax) },
     else_branch = f () => (float[1,4] h) { h = Relu(x) } >
  z = Relu(y)
  free = If(open) < then_branch = s () => (float[1,4] t) { t = Neg(x) },
                    else_branch = q () => (float[1,4] w) { w = Identity(x) } >
  v, o = Loop(three, yes, x) <
       body = l (int64 n, bool c1, float[1,4] k) => (bool c2, float[1,4] kk, float[1,4] oo)
       { c2 = Identity(c1)  kk = Add(k, x)  oo = Relu(kk) } > }"""

_FOLDING = """
g (float[2,3,4,4] x) => (float[a,b,c,d] y, float[q] z, int64[e] nz, string[f] text, float[k] hot)
<int64[4] pads2 = {0,0,1,1}, int64[1] two = {2}, int64[8] pads = {0,0,1,1,0,0,1,1},
 int64 start = {0}, int64 limit = {12}, int64 step = {1}, int64[2] shape = {3,4},
 int64[2] rep = {2,2}, float[4] scales = {1,1,2,2}, int64[4] sizes = {2,3,9,9},
 int64[2] depth = {7,7}, float[2] onoff = {0,1}, int64[1] top = {3}, int64[1] ax = {1},
 float[3] nums = {1.5,2,0}, string[2] words = {"a","b"}>
{ r = Range(start, limit, step)  r2 = Reshape(r, shape)  t = Tile(r2, rep)  e = Expand(r, shape1)
  c = ConstantOfShape<value=float[1]{2.5}>(shape)  cf = Cast<to=1>(t)  cs = Cast<to=8>(nums)
  w2 = StringConcat(words, words)  text = Concat<axis=0>(cs, w2)  nz0 = NonZero(nums)
  nz = Reshape(nz0, m1)  p = Pad<mode="reflect">(x, pads)  s = Resize<mode="linear">(p, , scales)
  s2 = Resize<mode="nearest", coordinate_transformation_mode="asymmetric">(s, , , sizes)
  v, vi = TopK<axis=3>(s2, top)  h0 = OneHot<axis=-1>(r, d7, onoff)  hot = ReduceMax<keepdims=0>(h0)
  p1, p2 = Split<axis=3, num_outputs=2>(s2)  cc = Concat<axis=3>(p1, p1)
  tr = Trilu<upper=1>(cc)  cu = CumSum(tr, start)  m = Mean(cu, cu)
  w = Where(cond, m, m)  y = Clip(w, lo, hi)  cz = MatMul(cf, ct)
  z = ReduceSum<keepdims=0>(cz) }"""

_INDICES = """
g (float[2,3,8,8] x, int64[2,2] i, float[5,4] boxes) => (float[a] y, float[b] z, float[c] w,
   int64[d,3] n, float[e] f)
<int64[2,1] nd = {0,1}, int64[5] bi = {0,0,1,1,0}, float[1,5,4] nb, float[1,2,5] ns,
 int64[1] most = {3}, float[1] iou = {0.5}, int64[2] imsize = {5,5}, int64[2] block = {1,5},
 int64 frame = {4}, int64 flen = {8}>
{ gn = GatherND<batch_dims=1>(x, nd)  ge = GatherElements<axis=1>(i, i)
  sn = ScatterND(x, nd, gx)  se = ScatterElements<axis=0>(i, i, i)
  ra = RoiAlign<output_height=2, output_width=2, sampling_ratio=2>(x, boxes, bi)
  n = NonMaxSuppression(nb, ns, most, iou)  ln = LayerNormalization<axis=1>(x, lns)
  gr = GroupNormalization<num_groups=3>(x, g3, g3)  es = Einsum<equation="abcd,abcd->ab">(ln, gr)
  d2s = DepthToSpace<blocksize=1>(x)  s2d = SpaceToDepth<blocksize=2>(d2s)
  gs = GridSample<mode="bilinear">(x, grid)  hd = Hardmax<axis=-1>(es)
  rs = ReverseSequence<batch_axis=0, time_axis=1>(es, lens)  am = ArgMax<axis=1>(rs)
  uq = Unique(am)  ey = EyeLike<dtype=1>(es)  ra2 = ReduceL2(ra)  y = Flatten(gs)
  z = Add(ra2, hd)  col = Col2Im(cols, imsize, block)  w = Flatten<axis=2>(col)
  st = STFT<onesided=1>(sig, frame, , flen)  f = ReduceSum<keepdims=0>(st) }"""

_OLD = """
g (float[2,3,4,4] x) => (float[a,b,c,d] y, float[e,f] z)
{ p = Pad<pads=[0,0,1,1,0,0,1,1], mode="constant", value=1.0>(x)
  s = Slice<starts=[0,1], ends=[9,-1], axes=[2,3]>(p)  u = Upsample<scales=[1.0,1.0,2.0,2.0]>(s)
  d = Dropout<ratio=0.3>(u)  c = Clip<min=0.0, max=6.0>(d)  m = Softmax<axis=1>(c)
  a, b = Split<axis=1, split=[1,2]>(m)  q = Squeeze<axes=[1]>(a)  y = Unsqueeze<axes=[1]>(q)
  r = ReduceMean<axes=[2,3], keepdims=0>(b)  v, i = TopK<k=1, axis=1>(r)  z = Sum(v, v) }"""

_RECURRENT = """
g (float[5,2,3] x, int32[2] n) => (float[5,1,2,4] a, float[5,1,2,4] b, float[5,2,2,4] c)
<float[1,16,3] w4, float[1,16,4] r4, float[1,12,3] w3, float[1,12,4] r3, float[2,4,3] w1,
 float[2,4,4] r1>
{ a, ah, ac = LSTM<hidden_size=4>(x, w4, r4, , n)
  b = GRU<hidden_size=4, linear_before_reset=1>(x, w3, r3)
  c = RNN<hidden_size=4, direction="bidirectional", activations=["Tanh","Relu"]>(x, w1, r1) }"""

_QUANTIZED = """
g (float[1,2,6,6] x) => (float[1,3,6,6] y, int32[1,2,6,6] i)
<float s = {0.1}, uint8 z = {3}, int8 zi = {0}, uint8[3,2,3,3] w, float[3] sc, int8[3] zc,
 uint8[6,6] m>
{ q = QuantizeLinear(x, s, z)  c = QLinearConv<pads=[1,1,1,1]>(q, s, z, w, s, z, s, z)
  y = DequantizeLinear(c, s, z)  d = DynamicQuantizeLinear(x)
  i = MatMulInteger(q, m, z, z)  ci = ConvInteger<pads=[1,1,1,1]>(q, w, z)
  wd = DequantizeLinear<axis=0>(w, sc, zw) }"""

_SEQUENCES = """
g (float[4,6] x, optional(float[4,6]) o) => (float[a,b] y, seq(float[c,d]) s)
<int64 size = {3}, int64 zero = {0}, int64 one = {1}>
{ s = SplitToSequence<axis=1>(x, size)  a = SequenceAt(s, zero)  b = SequenceAt(s, one)
  t = SequenceConstruct(a, b)  c = ConcatFromSequence<axis=0>(t)  l = SequenceLength(s)
  g1 = OptionalGetElement(o)  y = Relu(c) }"""

_CLASSIFIER = """
g (float[N,3] x, string[N] city) => (string[N] label, float[N,2] p, float[N,4] y)
<float[5,4] table>
{ label, p = ai.onnx.ml.LinearClassifier<coefficients=[0.1,0.2,0.3,0.4,0.5,0.6],
    intercepts=[0.1,0.2], classlabels_strings=["ham","spam"], post_transform="SOFTMAX">(x)
  i = ai.onnx.ml.LabelEncoder<keys_strings=["rome","oslo"], values_int64s=[1,2],
    default_int64=0>(city)
  y = Gather(table, i)  n = ai.onnx.ml.Normalizer<norm="L2">(x)
  q = com.example.Strange<level=3>(n) }"""

_FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[2,8] x) => (float[2,8] y, float[2,8] v)
{ r = Relu(x)  y = local.Outer<alpha=0.3>(r)  v = local.Swish(r) }
<domain: "local", opset_import: ["" : 18, "local" : 1]>
Outer<alpha>(a) => (b)
{ s = local.Swish(a)  t = LeakyRelu<alpha : float = @alpha>(s)
  c = Constant<value = bool {1}>()
  b = If(c) < then_branch = p () => (float[2,8] k) { k = local.Swish(t) },
              else_branch = q () => (float[2,8] m) { m = Identity(a) } > }
<domain: "local", opset_import: ["" : 16]>
Swish(a) => (b) { s = Sigmoid(a)  b = Mul(a, s) }
"""

#: Name -> text without its head, opset, other domains, weights that are added, by shape.
_TEXTS: Mapping[str, tuple[str, int, str, Mapping[str, object]]] = {
    "convolutions": (_CONVOLUTIONS, 17, "", {"tw": (4, 1, 3, 3), "k": (10,)}),
    "attention": (_ATTENTION, 17, "", {"axis0": np.array([0]), "zero": np.array(0)}),
    "control": (_CONTROL, 17, "", {}),
    "folding": (_FOLDING, 20, "", {
        "shape1": np.array([2, 12]), "m1": np.array([-1]), "d7": np.array(7),
        "cond": np.array(True), "lo": np.float32(0), "hi": np.float32(6), "ct": (8, 2)}),
    "indices": (_INDICES, 21, "", {
        "gx": (2, 3, 8, 8), "lns": (3, 8, 8), "g3": (3,), "grid": (2, 4, 4, 2),
        "lens": np.array([1, 2]), "cols": (1, 5, 5), "sig": (1, 32, 1)}),
    "old": (_OLD, 7, "", {}),
    "recurrent": (_RECURRENT, 14, "", {}),
    "quantized": (_QUANTIZED, 19, "", {"zw": np.zeros(3, np.uint8)}),
    "sequences": (_SEQUENCES, 18, "", {}),
    "classifier": (_CLASSIFIER, 17, ', "ai.onnx.ml" : 3, "com.example" : 1', {}),
}  # fmt: skip


def seeds() -> dict[str, ModelProto]:
    """The models by name; the same ones each time."""
    rng = np.random.default_rng(0)
    models = {}
    for name, (text, opset, more, weights) in _TEXTS.items():
        proto = onnx.parser.parse_model(_HEAD.format(opset=opset, more=more) + text)
        for weight, given in weights.items():
            value = rng.random(given).astype(np.float32) if isinstance(given, tuple) else given
            proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), weight))
        _with_values(proto, rng)
        models[name] = proto
    models["functions"] = onnx.parser.parse_model(_FUNCTIONS)
    models["external"] = _external()
    return models


def _with_values(proto: ModelProto, rng: np.random.Generator) -> None:
    """Turns value infos that the text lists among the weights, without values, into weights."""
    made = {name for node in proto.graph.node for name in node.output}
    known = {tensor.name for tensor in proto.graph.initializer}
    for info in list(proto.graph.value_info):
        if info.name in made | known:
            continue
        tensor = info.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        value = (rng.random(shape) * 3).astype(dtype)
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), info.name))
        proto.graph.value_info.remove(info)


def _external() -> ModelProto:
    """Small and large tensors in files, one of them there, and a sparse one."""
    proto = onnx.parser.parse_model(
        _HEAD.format(opset=17, more="")
        + "g (float[2,16] x) => (float[2,4,4] y) { r = Reshape(x, shape) w2 = MatMul(r, w)"
        " s2 = Add(w2, sp) o = ConstantOfShape<value = float[1] {1}>(shape) y = Mul(s2, o) }"
    )
    for name, kind, dims, location in (
        ("shape", TensorProto.INT64, [3], "data.bin"),
        ("w", TensorProto.FLOAT, [4, 4], "nowhere.bin"),
    ):
        tensor = proto.graph.initializer.add(name=name, data_type=kind, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0")):
            tensor.external_data.add(key=key, value=value)
    sparse = proto.graph.sparse_initializer.add(dims=[4, 4])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "sp"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 5]), "spi"))
    return proto


def operator_seeds() -> dict[str, ModelProto]:
    """A model of each of the onnx package's operator cases; small inputs are part of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero while they are made
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    return {case.name: _with_inputs(case) for case in cases}


def _with_inputs(case: Any) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(case.model)
    for info, value in zip(list(model.graph.input), case.data_sets[0][0], strict=True):
        if isinstance(value, np.ndarray) and value.size <= 16 and value.dtype.kind in "iufb":
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.input.remove(info)
    return model


#: What the external model's file holds.
EXTERNAL_DATA = np.array([2, 4, 4]).tobytes()
