"""Generates bricks of 1,000 models: the onnx package's nine networks at varied input sizes.

For growing numbers of models, it prints the seconds of importing (parse and normalize) and of
generation (split, sign, deduplicate, cut out) on one core, which show linear growth.

    python benchmarks/many_models.py
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from time import perf_counter

import onnx
from onnx import ModelProto, helper, numpy_helper, shape_inference

from dlbricks_core.bricks import BrickSet
from dlbricks_core.importers.light import LightModels, light_proto
from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize

_COUNTS = (125, 250, 500, 1000)


def backbone(proto: ModelProto) -> ModelProto:
    """The network up to its classifier, whose weights allow one input size only."""
    heads = [i for i, node in enumerate(proto.graph.node) if node.op_type in ("Reshape", "Gemm")]
    shapes = {v.name: len(v.type.tensor_type.shape.dim)
              for v in shape_inference.infer_shapes(proto).graph.value_info}  # fmt: skip
    nodes = list(proto.graph.node)
    end = next((i for i in heads if shapes.get(nodes[i].output[0], 4) < 4), len(nodes))
    produced = [out for node in nodes[:end] for out in node.output]
    read = {name for node in nodes[:end] for name in node.input}
    ends = [n for n in produced if n not in read and shapes.get(n, 0) == 4]
    outputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ends[-1:]]
    graph = helper.make_graph(
        nodes[:end], proto.graph.name, proto.graph.input, outputs, proto.graph.initializer
    )
    return helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)


def resized(proto: ModelProto, size: int) -> ModelProto:
    """The network for square images of another size."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    weights = {tensor.name for tensor in copy.graph.initializer}
    (image,) = (value for value in copy.graph.input if value.name not in weights)
    dims = image.type.tensor_type.shape.dim
    dims[2].dim_value = dims[3].dim_value = size
    for tensor in copy.graph.initializer:
        # Channel shuffles name the height and width that they reshape to.
        if tensor.data_type == onnx.TensorProto.INT64 and tensor.dims[0] >= 4:
            target = numpy_helper.to_array(tensor).copy()
            target[-2:] = target[-2:] * size // 224
            tensor.CopyFrom(numpy_helper.from_array(target, tensor.name))
    return copy


def variants() -> Iterator[tuple[str, ModelProto]]:
    """Endless sequence of networks at alternating sizes."""
    networks = [(name, light_proto(name)) for name in LightModels().names()]
    networks = [(name, backbone(proto)) for name, proto in networks]
    for size in itertools.count(224, 32):
        for name, proto in networks:
            yield f"{name}@{size}", resized(proto, size)


def main() -> None:
    """Prints a line for each number of models."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    protos = list(itertools.islice(variants(), max(_COUNTS)))
    print("models  layers  unique  import s  generate s  generated layers/s  all layers/s")
    for count in _COUNTS:
        begin = perf_counter()
        models: list[CanonicalModel] = [
            normalize(read_model(proto, name=name)) for name, proto in protos[:count]
        ]
        imported = perf_counter()
        bricks = BrickSet.of(models)
        unique = bricks.unique_layers
        end = perf_counter()
        print(
            f"{count:6d} {bricks.layers:7d} {unique:7d} {imported - begin:9.2f} "
            f"{end - imported:11.2f} {bricks.layers / (end - imported):19,.0f} "
            f"{bricks.layers / (end - begin):13,.0f}"
        )


if __name__ == "__main__":
    main()
