"""Types and shapes of the results of ONNX Runtime's own operators, one small rule an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlbricks_core.ir import TensorSpec
from dlbricks_core.operators.results import LayerInputs, Rule, Shape
from dlbricks_core.operators.shapes import broadcast


def rotated(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Queries or keys of three or four axes, turned."""
    spec = asked.spec(0)
    if spec.rank not in (3, 4):
        raise ValueError(f"its input has {spec.rank} axes, not three or four")
    return [spec]


def typed_as(position: int) -> Rule:
    """Rule for results in the shape of the first input, with the type of another one."""
    return lambda asked: [TensorSpec(asked.spec(position).dtype, asked.sizes())]


def broadcast_of(*positions: int) -> Rule:
    """Rule for results in the shape that some inputs broadcast to, typed as the first of these."""

    def rule(asked: LayerInputs) -> Sequence[TensorSpec]:
        shape = broadcast([asked.sizes(position) for position in positions])
        if shape is None:
            raise ValueError("inputs do not broadcast")
        return [TensorSpec(asked.spec(positions[0]).dtype, shape)]

    return rule


def product(left: Shape, right: Shape) -> Shape:
    """Shape of a matrix product."""
    if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
        raise ValueError(f"{left} and {right} are no factors of a matrix product")
    leading = broadcast([left[:-2], right[:-2]])
    if leading is None:
        raise ValueError("batches of matrices do not broadcast")
    return (*leading, *left[-2:-1], *right[-1:] * (len(right) > 1))


def matrix_product(second: int, typed: int = 0) -> Rule:
    """Rule for matrix products of the first input and another one."""
    return lambda asked: [
        TensorSpec(asked.spec(typed).dtype, product(asked.sizes(), asked.sizes(second)))
    ]


def _turned(sizes: Shape, matrix: bool, batch: bool) -> Shape:
    """Shape of a factor of FusedMatMul after its transpositions."""
    if batch:
        sizes = (*sizes[1:-1], sizes[0], sizes[-1])
    return (*sizes[:-2], sizes[-1], sizes[-2]) if matrix else sizes


def fused_matmul(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Matrix product of factors that are transposed first."""
    left, right = (
        _turned(
            asked.sizes(position),
            bool(asked.attribute(f"trans{side}", 0)),
            bool(asked.attribute(f"transBatch{side}", 0)),
        )
        for position, side in enumerate("AB")
    )
    return [TensorSpec(asked.spec(0).dtype, product(left, right))]


def gemm(second: int, typed: Callable[[LayerInputs], str]) -> Rule:
    """Rule for products of two matrices, each of which may be transposed."""

    def rule(asked: LayerInputs) -> Sequence[TensorSpec]:
        left = _turned(asked.sizes(), bool(asked.attribute("transA", 0)), batch=False)
        right = _turned(asked.sizes(second), bool(asked.attribute("transB", 0)), batch=False)
        return [TensorSpec(typed(asked), product(left, right))]

    return rule


def qgemm_type(asked: LayerInputs) -> str:
    """Element type of QGemm: quantized if a scale of the result is given."""
    return asked.spec(8 if asked.has(8) else 0 if asked.has(7) else 1).dtype


def matmul_nbits(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Product with a matrix whose size is in attributes."""
    sizes = asked.sizes()
    if sizes[-1] != asked.attribute("K"):
        raise ValueError(f"K is {asked.attribute('K')}, its input has {sizes[-1]} columns")
    return [TensorSpec(asked.spec(0).dtype, (*sizes[:-1], int(asked.attribute("N"))))]


def gather_block_quantized(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Rows of a table whose elements may be packed two in a byte."""
    data = list(asked.sizes())
    axis = asked.attribute("gather_axis", 0) % len(data)
    if asked.spec(0).dtype == "uint8":
        data[-1] *= 8 // int(asked.attribute("bits", 4))
    shape = (*data[:axis], *asked.sizes(1), *data[axis + 1 :])
    return [TensorSpec(asked.spec(2).dtype, shape)]


def normalized(asked: LayerInputs) -> Sequence[TensorSpec]:
    """A normalized sum, mean and deviation of each row, and the sum."""
    spec = asked.spec(0)
    row = TensorSpec("float32", (*spec.sizes[:-1], 1))
    return [spec, row, row, spec]


def simplified_normalization(asked: LayerInputs) -> Sequence[TensorSpec]:
    """A result like the input, and a deviation of each row."""
    spec = asked.spec(0)
    axis = asked.attribute("axis", -1) % max(spec.rank, 1)
    rows = (*spec.sizes[:axis], *(1 for _ in spec.sizes[axis:]))
    return [TensorSpec(asked.spec(1).dtype, spec.sizes), TensorSpec("float32", rows)]


def embedding(table: int, typed: int) -> Rule:
    """Rule for sums of embeddings of words, positions and segments."""

    def rule(asked: LayerInputs) -> Sequence[TensorSpec]:
        batch, length = asked.sizes()
        found = TensorSpec(asked.spec(typed).dtype, (batch, length, asked.sizes(table)[1]))
        return [found, TensorSpec(asked.spec(0).dtype, (batch,)), found]

    return rule


def attention(past: int, typed: int = 0) -> Rule:
    """Rule for attention with the projection inside.

    Args:
        past: Position of the cache of keys and values.
        typed: Position of an input that has the results' type.
    """

    def rule(asked: LayerInputs) -> Sequence[TensorSpec]:
        batch, length, _ = asked.sizes()
        parts = asked.attribute("qkv_hidden_sizes") or (asked.sizes(1)[1] // 3,) * 3
        dtype = asked.spec(typed).dtype
        total = length + (asked.sizes(past)[3] if asked.has(past) else 0)
        head = parts[0] // asked.heads
        return [
            TensorSpec(dtype, (batch, length, parts[2])),
            TensorSpec(dtype, (2, batch, asked.heads, total, head)),
        ]

    return rule


def multi_head_attention(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Attention over queries, keys and values that may be packed together."""
    query, spec = asked.sizes(), asked.spec(0)
    batch, length, heads = query[0], query[1], asked.heads
    head = query[4] if len(query) == 5 else query[2] // heads
    keys, width = length, head
    if asked.has(1):
        key = asked.sizes(1)
        keys = key[2] if len(key) == 4 else key[1]
        if asked.has(2):
            value = asked.sizes(2)
            width = value[3] if len(value) == 4 else value[2] // heads
    total = keys + (asked.sizes(6)[2] if asked.has(6) else 0)
    return [
        TensorSpec(spec.dtype, (batch, length, heads * width)),
        TensorSpec(spec.dtype, (batch, heads, total, head)),
        TensorSpec(spec.dtype, (batch, heads, total, width)),
        TensorSpec(spec.dtype, (batch, heads, length, total)),
    ]


def grouped_query_attention(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Attention whose cache has room for all steps; unknown if their number is unknown."""
    batch, length, width = asked.sizes()
    spec, shared = asked.spec(0), int(asked.attribute("kv_num_heads"))
    packed = not asked.has(1)
    head = width // (asked.heads + 2 * shared if packed else asked.heads)
    total = asked.number(6)
    past = asked.sizes(3)[2] if asked.has(3) else 0
    moves = bool(asked.attribute("sliding_window_cache", 0))
    if total is not None and total > past + length and not moves:
        # The kernel would read beyond the cache.
        raise ValueError(f"all steps are {total}, steps of the cache and new steps {past + length}")
    room = past if moves else None if total is None else max(past, total)
    kept = asked.spec(3).dtype if asked.has(3) else spec.dtype
    stored = asked.sizes(3)[3] if asked.has(3) else head  # two quantized elements fit in a byte
    cache = TensorSpec(kept, (batch, shared, room, stored))
    scores = TensorSpec(spec.dtype, (batch, asked.heads, length, total))
    return [TensorSpec(spec.dtype, (batch, length, asked.heads * head)), cache, cache, scores]


def pooled(asked: LayerInputs) -> Sequence[TensorSpec]:
    """One element of each map."""
    spec = asked.spec(0)
    inner = (1,) * (spec.rank - 2)
    last = bool(asked.attribute("channels_last", 0))
    shape = (spec.sizes[0], *inner, spec.sizes[-1]) if last else (*spec.sizes[:2], *inner)
    return [TensorSpec(spec.dtype, shape)]


def _windows(asked: LayerInputs, sizes: Shape, window: Shape = ()) -> Shape:
    """Places of a window on each spatial axis."""
    window = tuple(asked.attribute("kernel_shape", window))
    ones = (1,) * len(window)
    strides = asked.attribute("strides") or ones
    dilations = asked.attribute("dilations") or ones
    pads = asked.attribute("pads") or (0,) * 2 * len(window)
    auto = asked.attribute("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    found = []
    for axis, size in enumerate(sizes):
        reach = (window[axis] - 1) * dilations[axis] + 1
        if auto.startswith("SAME"):
            found.append(-(-size // strides[axis]))
            continue
        free = size - reach + (0 if auto == "VALID" else pads[axis] + pads[axis + len(window)])
        more = strides[axis] - 1 if asked.attribute("ceil_mode", 0) else 0
        places = (free + more) // strides[axis] + 1
        begins = 0 if auto == "VALID" else pads[axis]
        # A window that begins in the padding behind the map counts for nothing.
        found.append(places - (more and (places - 1) * strides[axis] >= size + begins))
    return tuple(found)


def windowed(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Pooling over windows, of maps that may have their channels last."""
    spec = asked.spec(0)
    batch, *rest = spec.sizes
    if asked.layer.op == "NhwcMaxPool" or asked.attribute("channels_last", 0):
        return [TensorSpec(spec.dtype, (batch, *_windows(asked, tuple(rest[:-1])), rest[-1]))]
    return [TensorSpec(spec.dtype, (batch, rest[0], *_windows(asked, tuple(rest[1:]))))]


def convolved(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Convolution of maps that have their channels first."""
    spec, (channels, _, *window) = asked.spec(0), asked.sizes(1)
    if spec.rank != len(window) + 2:
        raise ValueError(f"its input has {spec.rank} axes, its weights {len(window) + 2}")
    places = _windows(asked, spec.sizes[2:], tuple(window))
    return [TensorSpec(spec.dtype, (spec.sizes[0], channels, *places))]


def joined(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Quantized tensors, each with its scale and zero point, one after another."""
    parts = [asked.sizes(position) for position in range(2, len(asked.inputs), 3)]
    axis = int(asked.attribute("axis")) % len(parts[0])
    total = sum(sizes[axis] for sizes in parts)
    return [TensorSpec(asked.spec(1).dtype, (*parts[0][:axis], total, *parts[0][axis + 1 :]))]


def reduced(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Means over the axes of an attribute."""
    spec = asked.spec(0)
    gone = {axis % spec.rank for axis in asked.attribute("axes")}
    kept = bool(asked.attribute("keepdims", 1))
    shape = [1 if axis in gone else size for axis, size in enumerate(spec.sizes)]
    if not kept:
        shape = [size for axis, size in enumerate(spec.sizes) if axis not in gone]
    return [TensorSpec(spec.dtype, tuple(shape))]


def chosen(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Elements of two quantized tensors, picked by a condition."""
    shape = broadcast([asked.sizes(position) for position in (0, 1, 4)])
    if shape is None:
        raise ValueError("inputs do not broadcast")
    return [TensorSpec(asked.spec(1).dtype, shape)]


def recurrent(asked: LayerInputs) -> Sequence[TensorSpec]:
    """All states, the last state and the last cell of an LSTM."""
    steps, batch, _ = asked.sizes()
    directions, hidden, _ = asked.sizes(2)
    dtype = asked.spec(0).dtype
    last = TensorSpec(dtype, (directions, batch, hidden))
    return [TensorSpec(dtype, (steps, directions, batch, hidden)), last, last]
