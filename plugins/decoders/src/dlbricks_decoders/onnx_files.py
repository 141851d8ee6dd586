"""Decoders in ONNX files of any size: their weights are a sparse file, which takes no room.

They have the inputs, outputs and open dimensions that exporters of language models write, and the
layers of a Llama: root mean squares, rotary positions, grouped queries, a cache of keys and values,
and a gated unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dlbricks_core.ir import Array

_WEIGHTS_FILE = "weights.bin"
_OPSET = 17
"""Version of the operators that exporters write."""

_FLOAT_BYTES = 4
"""Bytes of a 32-bit float."""


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of a decoder.

    Attributes:
        blocks: Number of blocks.
        hidden: Features of a token between the blocks.
        inner: Features within the gated unit.
        heads: Heads of queries.
        kv_heads: Heads of keys and values; a divisor of ``heads``.
        vocabulary: Number of different tokens.
        positions: Most tokens that a sequence and its cache may have.
    """

    blocks: int = 2
    hidden: int = 64
    inner: int = 128
    heads: int = 4
    kv_heads: int = 2
    vocabulary: int = 512
    positions: int = 4096

    @property
    def head(self) -> int:
        """Features of a head."""
        return self.hidden // self.heads


SHAPES = {
    "tiny": DecoderShape(),
    "0.1b": DecoderShape(12, 768, 2048, 12, 4, 32000),
    "1b": DecoderShape(22, 2048, 5632, 32, 4, 32000),
    "8b": DecoderShape(32, 4096, 14336, 32, 8, 128256),
    "70b": DecoderShape(80, 8192, 28672, 64, 8, 128256),
}
"""Decoders of about so many parameters: TinyLlama's sizes for one billion, Llama 3's above."""


def write_decoder(folder: Path, shape: DecoderShape, name: str = "decoder") -> Path:
    """Writes a decoder, and the sparse file of its weights beside it.

    Args:
        folder: Where to write; one decoder a folder.
        shape: Its sizes.
        name: Name of the file, without its suffix.

    Returns:
        Path of the ONNX file. Its open dimensions are ``batch``, ``sequence`` and ``past``.
    """
    builder = _Builder(shape)
    path = folder / f"{name}.onnx"
    path.write_bytes(builder.model(name).SerializeToString())
    with (folder / _WEIGHTS_FILE).open("wb") as file:
        file.truncate(builder.nbytes)
    return path


@dataclass
class _Builder:
    """Nodes and weights of a decoder, in the order in which they are added."""

    shape: DecoderShape
    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    nbytes: int = 0

    def model(self, name: str) -> onnx.ModelProto:
        """The whole decoder."""
        shape = self.shape
        cache: list[str | int | None] = ["batch", shape.kv_heads, "past", shape.head]
        longer: list[str | int | None] = ["batch", shape.kv_heads, "total", shape.head]
        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64,
                                                ["batch", "sequence"])]  # fmt: skip
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT,
                                                 ["batch", 1, shape.vocabulary])]  # fmt: skip
        x = self.node("Gather", self.weight(shape.vocabulary, shape.hidden), "input_ids")
        rotation, mask = self.positions()
        for block in range(shape.blocks):
            x = self.block(x, block, rotation, mask)
            for kind in ("key", "value"):
                for prefix, sizes, infos in (
                    ("past_key_values", cache, inputs),
                    ("present", longer, outputs),
                ):
                    infos.append(helper.make_tensor_value_info(
                        f"{prefix}.{block}.{kind}", TensorProto.FLOAT, sizes))  # fmt: skip
        x = self.node("Gather", x, self.integers(-1), axis=1)
        head = self.weight(shape.hidden, shape.vocabulary)
        self.node("MatMul", self.normed(x), head, name="logits")
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def node(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Name of a node's result."""
        out = name or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"{op}_{out}", **attributes))
        return out

    def weight(self, *sizes: int) -> str:
        """Name of a weight that lies in the file of weights."""
        name = f"w{len(self.weights)}"
        size = _FLOAT_BYTES * int(np.prod(sizes))
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=sizes,
                             data_location=TensorProto.EXTERNAL)  # fmt: skip
        for key, value in (("location", _WEIGHTS_FILE), ("offset", self.nbytes), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)
        self.nbytes += size
        return name

    def value(self, array: Array) -> str:
        """Name of a small weight that is written into the model."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def integers(self, *numbers: int) -> str:
        """Name of a vector of integers."""
        return self.value(np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        """Name of a single number."""
        return self.value(np.array(value, np.float32))

    def normed(self, x: str) -> str:
        """The tokens over their root mean square, scaled."""
        squares = self.node("Pow", x, self.number(2.0))
        mean = self.node("ReduceMean", squares, axes=[-1], keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.number(1e-5)))
        return self.node("Mul", self.node("Div", x, root), self.weight(self.shape.hidden))

    def positions(self) -> tuple[tuple[str, str], str]:
        """Cosines and sines of the positions, and the mask to add to scores: 0 or the least.

        They are computed once and read by every block.
        """
        length = self.node("Gather", self.node("Shape", "input_ids"), self.integers(1))
        past = self.node("Gather", self.node("Shape", "past_key_values.0.key"), self.integers(2))
        total = self.node("Add", past, length)
        zero, one = (self.value(np.array(number, np.int64)) for number in (0, 1))
        ends = [self.node("Squeeze", each) for each in (past, total)]
        rows = self.node("Range", *ends, one)
        columns = self.node("Range", zero, ends[1], one)
        tables = [self.weight(self.shape.positions, self.shape.head // 2) for _ in range(2)]
        cosine, sine = (
            self.node("Unsqueeze", self.node("Concat", half, half, axis=-1), self.integers(0, 1))
            for half in [self.node("Gather", table, rows) for table in tables]
        )
        later = self.node("Greater", columns, self.node("Unsqueeze", rows, self.integers(1)))
        mask = self.node("Where", later, self.number(-3.4e38), self.number(0.0))
        return (cosine, sine), mask

    def block(self, x: str, number: int, rotation: tuple[str, str], mask: str) -> str:
        """A block: attention and a gated unit, each added to what it read."""
        shape = self.shape
        normed = self.normed(x)
        widths = (shape.hidden, shape.kv_heads * shape.head, shape.kv_heads * shape.head)
        query, key, value = (
            self.heads(self.node("MatMul", normed, self.weight(shape.hidden, width)), width)
            for width in widths
        )
        query, key = self.rotated(query, rotation), self.rotated(key, rotation)
        key, value = (
            self.node("Concat", f"past_key_values.{number}.{kind}", new, axis=2,
                      name=f"present.{number}.{kind}")
            for kind, new in (("key", key), ("value", value))
        )  # fmt: skip
        key, value = self.repeated(key), self.repeated(value)
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        scaled = self.node("Mul", scores, self.number(shape.head**-0.5))
        shares = self.node("Softmax", self.node("Add", scaled, mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        flat = self.node("Reshape", mixed, self.integers(0, 0, shape.hidden))
        projection = self.weight(shape.hidden, shape.hidden)
        x = self.node("Add", x, self.node("MatMul", flat, projection))
        normed = self.normed(x)
        gate, up = (
            self.node("MatMul", normed, self.weight(shape.hidden, shape.inner)) for _ in range(2)
        )
        opened = self.node("Mul", gate, self.node("Sigmoid", gate))
        down = self.weight(shape.inner, shape.hidden)
        return self.node("Add", x, self.node("MatMul", self.node("Mul", opened, up), down))

    def heads(self, x: str, width: int) -> str:
        """Features of each head apart, heads before tokens."""
        split = self.node("Reshape", x, self.integers(0, 0, width // self.shape.head, -1))
        return self.node("Transpose", split, perm=[0, 2, 1, 3])

    def rotated(self, x: str, rotation: tuple[str, str]) -> str:
        """Features turned by their positions, the second half after the first."""
        cosine, sine = rotation
        half = self.shape.head // 2
        first, second = (
            self.node("Slice", x, self.integers(begin), self.integers(end), self.integers(3))
            for begin, end in ((0, half), (half, 2 * half))
        )
        turned = self.node("Concat", self.node("Neg", second), first, axis=-1)
        return self.node("Add", self.node("Mul", x, cosine), self.node("Mul", turned, sine))

    def repeated(self, x: str) -> str:
        """Keys or values, once for each query head that shares them."""
        shape = self.shape
        times = shape.heads // shape.kv_heads
        if times == 1:
            return x
        wide = self.node("Unsqueeze", x, self.integers(2))
        ones = self.integers(1, 1, times, 1, 1)
        copies = self.node("Expand", wide, ones)
        return self.node("Reshape", copies, self.integers(0, shape.heads, -1, shape.head))
