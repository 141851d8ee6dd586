"""Imports, splits and deduplicates a model whose external weights total 10 GB.

The weights are a sparse file: it has the size, but takes no room on the disk. The work
runs in a fresh process, whose peak memory and time are printed.

    python benchmarks/large_model.py
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import onnx
from onnx import TensorProto, helper

_HIDDEN, _INNER, _TOKENS = 4096, 14336, 128
_WEIGHTS_FILE = "weights.bin"
_TARGET_BYTES = 10 * 10**9


class _Builder:
    """Decoder blocks whose weights are ranges of one external file."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.nbytes = 0

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.initializers)}"
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape,
                             data_location=TensorProto.EXTERNAL)  # fmt: skip
        for key, value in (("location", _WEIGHTS_FILE), ("offset", self.nbytes), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        self.nbytes += size
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def block(self, x: str) -> str:
        normed = self.node("LayerNormalization", x, self.weight(_HIDDEN), axis=-1)
        query, key, value = (
            self.node("MatMul", normed, self.weight(_HIDDEN, _HIDDEN)) for _ in range(3)
        )
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 2, 1]))
        mixed = self.node("MatMul", self.node("Softmax", scores), value)
        x = self.node("Add", x, self.node("MatMul", mixed, self.weight(_HIDDEN, _HIDDEN)))
        normed = self.node("LayerNormalization", x, self.weight(_HIDDEN), axis=-1)
        inner = self.node("MatMul", normed, self.weight(_HIDDEN, _INNER))
        gate = self.node("Sigmoid", self.node("MatMul", normed, self.weight(_HIDDEN, _INNER)))
        outer = self.weight(_INNER, _HIDDEN)
        return self.node("Add", x, self.node("MatMul", self.node("Mul", inner, gate), outer))


def make(folder: Path) -> tuple[Path, int]:
    """Writes the model; returns its path and the size of its weights in bytes."""
    builder = _Builder()
    x = "tokens"
    while builder.nbytes < _TARGET_BYTES:
        x = builder.block(x)
    shape = [1, _TOKENS, _HIDDEN]
    graph = helper.make_graph(
        builder.nodes,
        "decoder",
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        builder.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "decoder.onnx"
    path.write_bytes(model.SerializeToString())
    with (folder / _WEIGHTS_FILE).open("wb") as file:
        file.truncate(builder.nbytes)
    return path, builder.nbytes


def work(path: Path) -> dict[str, float]:
    """Imports, splits and deduplicates; figures of this process."""
    begin = perf_counter()
    from dlbricks_core.bricks import BrickSet
    from dlbricks_core.importers.onnx import OnnxImporter
    from dlbricks_core.passes import normalize

    imported = perf_counter()
    bricks = BrickSet.of([normalize(OnnxImporter().load(path))])
    return {
        "layers": bricks.layers,
        "unique_layers": bricks.unique_layers,
        "python_imports_s": imported - begin,
        "work_s": perf_counter() - imported,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def main() -> None:
    """Prints the figures."""
    if len(sys.argv) > 1:
        print(json.dumps(work(Path(sys.argv[1]))))
        return
    with tempfile.TemporaryDirectory() as name:
        path, nbytes = make(Path(name))
        command = [sys.executable, __file__, str(path)]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(f"weights: {nbytes / 1e9:.1f} GB external, {figures['layers']} layers, "
          f"{figures['unique_layers']} unique")  # fmt: skip
    print(f"import, split, deduplicate: {figures['work_s']:.2f} s "
          f"(and {figures['python_imports_s']:.2f} s to import Python modules)")  # fmt: skip
    print(f"peak memory of the process: {figures['peak_mb']:.0f} MB")


if __name__ == "__main__":
    main()
