"""A small language model in ONNX, with a cache and open dimensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = ("batch", "sequence", "past")


class _Graph:
    """Nodes and weights of a graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def named(self, name: str, op: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, values: object, dtype: type = np.int64) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(np.full(shape, 0.01, np.float32), np.float32)


def save_decoder(
    path: str | Path,
    sizes: tuple[str | int, str | int, str | int] = SIZES,
    *,
    blocks: int = 2,
    hidden: int = 32,
    heads: int = 4,
    kv_heads: int = 2,
    vocabulary: int = 64,
    all_scores: bool = False,
) -> None:
    """Saves a decoder with grouped-query attention; without a mask, positions or normalization.

    Args:
        path: File to write.
        sizes: Batch, new tokens, and tokens that the cache holds; names leave them open.
        blocks: Number of blocks, which are all alike.
        hidden: Numbers in a token's state.
        heads: Heads of queries.
        kv_heads: Heads of keys and values.
        vocabulary: Different tokens.
        all_scores: Whether it scores all new tokens, not only the last one.
    """
    batch, sequence, past = sizes
    width = hidden // heads
    graph = _Graph()
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", TensorProto.INT64, [batch, sequence])]
    scored = sequence if all_scores else 1
    outputs = [value("logits", TensorProto.FLOAT, [batch, scored, vocabulary])]
    state = graph.add("Gather", graph.weight(vocabulary, hidden), "input_ids", axis=0)

    def split(x: str, number: int) -> str:
        projected = graph.add("MatMul", x, graph.weight(hidden, number * width))
        shaped = graph.add("Reshape", projected, graph.constant([0, 0, number, width]))
        return graph.add("Transpose", shaped, perm=[0, 2, 1, 3])

    def cached(x: str, block: int, kind: str) -> str:
        before, after = f"past_key_values.{block}.{kind}", f"present.{block}.{kind}"
        shape = [batch, kv_heads, past, width]
        inputs.append(value(before, TensorProto.FLOAT, shape))
        outputs.append(value(after, TensorProto.FLOAT, [batch, kv_heads, None, width]))
        every = graph.named(after, "Concat", before, x, axis=2)
        apart = graph.add("Unsqueeze", every, graph.constant([2]))
        wide = graph.add("Expand", apart, graph.constant([1, 1, heads // kv_heads, 1, 1]))
        return graph.add("Reshape", wide, graph.constant([0, heads, -1, width]))

    for block in range(blocks):
        queries = split(state, heads)
        keys = cached(split(state, kv_heads), block, "key")
        values = cached(split(state, kv_heads), block, "value")
        scores = graph.add("MatMul", queries, graph.add("Transpose", keys, perm=[0, 1, 3, 2]))
        mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
        joined = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
        flat = graph.add("Reshape", joined, graph.constant([0, 0, hidden]))
        attended = graph.add("MatMul", flat, graph.weight(hidden, hidden))
        state = graph.add("Add", state, attended)
        wide = graph.add("MatMul", state, graph.weight(hidden, 4 * hidden))
        narrow = graph.add("MatMul", graph.add("Relu", wide), graph.weight(4 * hidden, hidden))
        state = graph.add("Add", state, narrow)
    if not all_scores:
        state = graph.add("Gather", state, graph.constant([-1]), axis=1)
    graph.named("logits", "MatMul", state, graph.weight(hidden, vocabulary))
    made = helper.make_graph(graph.nodes, "decoder", inputs, outputs, graph.weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(made, opset_imports=[opset], ir_version=8), path)
