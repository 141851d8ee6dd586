"""ONNX files as the tools of ONNX Runtime write them, small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    """A graph that grows node by node, with random weights."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def add(self, op: str, inputs: Sequence[str], outputs: Sequence[str] = (), **more: Any) -> str:
        """Adds a node; returns its first output."""
        name = f"/{op}_{len(self.nodes)}"
        made = tuple(outputs) or (f"{name}/output_0",)
        self.nodes.append(helper.make_node(op, inputs, made, name=name, **more))
        return made[0]

    def own(self, op: str, inputs: Sequence[str], outputs: Sequence[str] = (), **more: Any) -> str:
        """Adds a node of an operator that ONNX Runtime alone has; returns its first output."""
        return self.add(op, inputs, outputs, domain="com.microsoft", **more)

    def weight(self, name: str, *shape: int, scale: float = 0.0) -> str:
        """Adds a weight with random values."""
        scale = scale or 1 / np.sqrt(shape[0])
        return self.value(name, (self._random.standard_normal(shape) * scale).astype(np.float32))

    def value(self, name: str, value: Any) -> str:
        """Adds a weight with a value."""
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(
        self,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
        opset: int = 21,
    ) -> onnx.ModelProto:
        """The finished model."""
        graph = helper.make_graph(self.nodes, "main_graph", inputs, outputs, self.weights)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def floats(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    """An input or output of floats."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def integers(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    """An input or output of 64-bit integers."""
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


def decoder(
    *,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head: int = 16,
    inner: int = 96,
    vocabulary: int = 128,
    longest: int = 64,
    window: int = -1,
) -> onnx.ModelProto:
    """A decoder in the form in which ONNX Runtime GenAI's model builder writes Llama for CPUs.

    Weights are float32; the builder leaves their quantization to ONNX Runtime's tool.
    """
    w = Writer()
    width = heads * head
    w.value("one", np.array([1], np.int64))
    w.value("one_scalar", np.array(1, np.int64))
    summed = w.add("ReduceSum", ["attention_mask", "one"], keepdims=0)
    lengths = w.add("Cast", [w.add("Sub", [summed, "one"])], to=TensorProto.INT32)
    size = w.add("Gather", [w.add("Shape", ["attention_mask"]), "one_scalar"], axis=0)
    total = w.add("Cast", [size], to=TensorProto.INT32)
    turn = np.outer(np.arange(longest), 10000.0 ** (-np.arange(head // 2) / (head // 2)))
    w.value("cos_cache", np.cos(turn).astype(np.float32))
    w.value("sin_cache", np.sin(turn).astype(np.float32))
    w.weight("model.embed_tokens.weight", vocabulary, width, scale=1.0)
    root = w.add("Gather", ["model.embed_tokens.weight", "input_ids"])
    skipped = ""
    inputs = [integers("input_ids", "batch_size", "sequence_length"),
              integers("attention_mask", "batch_size", "total_sequence_length")]  # fmt: skip
    outputs = [floats("logits", "batch_size", "sequence_length", vocabulary)]

    def normalized(root: str, skipped: str, name: str, last: bool = False) -> tuple[str, str]:
        weight = w.value(name, np.ones(width, np.float32))
        if not skipped:
            y = w.add("SimplifiedLayerNormalization", [root, weight], axis=-1, epsilon=1e-5,
                      stash_type=1)  # fmt: skip
            return y, root
        y = f"{name}/output_0"
        results = [y] if last else [y, "", "", f"{name}/output_3"]
        w.own("SkipSimplifiedLayerNormalization", [root, skipped, weight], results, epsilon=1e-5)
        return y, results[-1]

    def product(x: str, name: str, rows: int, columns: int) -> str:
        return w.add("MatMul", [x, w.weight(f"{name}.weight", rows, columns)])

    for layer in range(layers):
        base = f"model.layers.{layer}"
        x, root = normalized(root, skipped, f"{base}.input_layernorm.weight")
        q, k, v = (
            product(x, f"{base}.{part}_proj", width, number * head)
            for part, number in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        present = [f"present.{layer}.{kind}" for kind in ("key", "value")]
        y = w.own(
            "GroupQueryAttention",
            [q, k, v, *past, lengths, total, "cos_cache", "sin_cache", "", ""],
            [f"{base}.attention", *present],
            num_heads=heads, kv_num_heads=kv_heads, scale=float(1 / np.sqrt(head)), softcap=0.0,
            local_window_size=window, do_rotary=1, rotary_interleaved=0,
        )  # fmt: skip
        skipped = product(y, f"{base}.o_proj", width, width)
        x, root = normalized(root, skipped, f"{base}.post_attention_layernorm.weight")
        gate, up = (product(x, f"{base}.{name}_proj", width, inner) for name in ("gate", "up"))
        gated = w.add("Mul", [w.add("Mul", [gate, w.add("Sigmoid", [gate])]), up])
        skipped = product(gated, f"{base}.down_proj", inner, width)
        cache = ("batch_size", kv_heads)
        inputs += [floats(name, *cache, "past_sequence_length", head) for name in past]
        outputs += [floats(name, *cache, "total_sequence_length", head) for name in present]
    x, _ = normalized(root, skipped, "model.norm.weight", last=True)
    w.add("MatMul", [x, w.weight("lm_head.MatMul.weight", width, vocabulary)], ["logits"])
    return w.model(inputs, outputs)


def encoder(*, layers: int = 2, heads: int = 4, width: int = 64) -> onnx.ModelProto:
    """The blocks of a BERT as torch exported them, before ONNX Runtime's tools fuse anything."""
    w = Writer(1)
    head, length = width // heads, "sequence_length"
    x = "hidden"
    split = w.value("split", np.array([0, 0, heads, head], np.int64))
    merge = w.value("merge", np.array([0, 0, width], np.int64))
    root = w.value("root", np.array(np.sqrt(head), np.float32))

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        y = w.add("MatMul", [x, w.weight(f"{name}.weight", rows, columns)])
        return w.add("Add", [y, w.weight(f"{name}.bias", columns, scale=0.1)])

    def normalized(x: str, name: str) -> str:
        scale = w.value(f"{name}.scale", np.ones(width, np.float32))
        shift = w.value(f"{name}.shift", np.zeros(width, np.float32))
        return w.add("LayerNormalization", [x, scale, shift], axis=-1, epsilon=1e-12)

    x = normalized(w.add("Add", [x, w.weight("position", 1, 1, width)]), "embedding")
    for layer in range(layers):
        base = f"layer.{layer}"
        parts = [w.add("Reshape", [linear(x, f"{base}.{n}", width, width), split]) for n in "qkv"]
        perms = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        q, k, v = (
            w.add("Transpose", [part], perm=perm) for part, perm in zip(parts, perms, strict=True)
        )
        scores = w.add("Div", [w.add("MatMul", [q, k]), root])
        y = w.add("MatMul", [w.add("Softmax", [scores], axis=-1), v])
        y = w.add("Reshape", [w.add("Transpose", [y], perm=(0, 2, 1, 3)), merge])
        x = normalized(w.add("Add", [linear(y, f"{base}.o", width, width), x]), f"{base}.attended")
        y = linear(x, f"{base}.up", width, 4 * width)
        half, one = (w.value(f"{base}.{n}", np.array(n, np.float32)) for n in (0.5, 1.0))
        turned = w.add("Div", [y, w.value(f"{base}.two", np.array(np.sqrt(2), np.float32))])
        erf = w.add("Add", [w.add("Erf", [turned]), one])
        y = w.add("Mul", [w.add("Mul", [y, erf]), half])
        y = linear(y, f"{base}.down", 4 * width, width)
        x = normalized(w.add("Add", [y, x]), f"{base}.out")
    w.add("Identity", [x], ["output"])
    return w.model(
        [floats("hidden", "batch_size", length, width)],
        [floats("output", "batch_size", length, width)],
        opset=17,
    )


def classifier() -> onnx.ModelProto:
    """A small network of convolutions, with what static quantization has operators for."""
    w = Writer(2)
    x = w.add("Conv", ["image", w.weight("first", 8, 3, 3, 3, scale=0.2)], pads=(1, 1, 1, 1))
    x = w.add("Relu", [x])
    y = w.add("Conv", [x, w.weight("second", 8, 8, 3, 3, scale=0.1)], pads=(1, 1, 1, 1))
    y = w.add("Mul", [y, w.add("Sigmoid", [y])])
    x = w.add("Concat", [w.add("Add", [x, y]), y], axis=1)
    x = w.add("AveragePool", [w.add("LeakyRelu", [x], alpha=0.1)], kernel_shape=(2, 2),
              strides=(2, 2))  # fmt: skip
    x = w.add("Flatten", [w.add("GlobalAveragePool", [x])])
    x = w.add("Gemm", [x, w.weight("last", 10, 16, scale=0.3), w.weight("bias", 10)], transB=1)
    w.add("Softmax", [x], ["classes"], axis=-1)
    return w.model(
        [floats("image", "batch_size", 3, 16, 16)], [floats("classes", "batch_size", 10)], opset=17
    )
