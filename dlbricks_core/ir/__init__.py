"""The ONNX-based intermediate representation.

An importer returns a :class:`RawModel`, as the producer wrote it. The passes turn it into a
:class:`CanonicalModel`, which bricks, values, backends and analyses read.
"""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.ir.limits import MAX_LAYERS
    from dlbricks_core.ir.model import (
        Array,
        Attribute,
        CanonicalModel,
        Layer,
        Network,
        RawModel,
        Subgraph,
        TensorValue,
        layer_graph,
    )
    from dlbricks_core.ir.onnx_reader import read_model
    from dlbricks_core.ir.onnx_writer import (
        CANONICAL_OPSET,
        node_proto,
        packed,
        save_onnx,
        to_onnx,
        unpacked,
    )
    from dlbricks_core.ir.tensors import Dim, TensorSpec, dtype_name, numpy_dtype

__all__ = [
    "CANONICAL_OPSET",
    "MAX_LAYERS",
    "Array",
    "Attribute",
    "CanonicalModel",
    "Dim",
    "Layer",
    "Network",
    "RawModel",
    "Subgraph",
    "TensorSpec",
    "TensorValue",
    "dtype_name",
    "layer_graph",
    "node_proto",
    "numpy_dtype",
    "packed",
    "read_model",
    "save_onnx",
    "to_onnx",
    "unpacked",
]

lazy(__name__)
