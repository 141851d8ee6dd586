"""An ONNX graph under construction, and operations of OpenVINO that it is made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import openvino

from dlbricks_core.backends import Array

TYPES: Mapping[str, str] = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "boolean": "bool",
    "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u4": "uint4", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2",
}  # fmt: skip
"""Element types of ONNX, by OpenVINO's name of each."""

SHORT = frozenset(("int4", "uint4"))
"""Types of which several elements share a byte."""


def constant_value(port: openvino.Output) -> Array | None:
    """Value of a constant, also one that is converted to another type; else ``None``."""
    node = port.get_node()
    if node.get_type_name() == "Constant":
        return np.asarray(node.get_data())
    if node.get_type_name() in ("Convert", "ConvertLike"):
        value = constant_value(node.input_value(0))
        return None if value is None else value.astype(port.get_element_type().to_dtype())
    return None
