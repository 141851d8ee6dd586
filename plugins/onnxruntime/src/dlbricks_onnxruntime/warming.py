"""Brings arrays into the caches of the cores that will use them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.backends import Array

_OPSET = 21


class Warmer:
    """Multiplies arrays by one, in place, on all threads of ONNX Runtime.

    Each core then holds the part of an array that it would have written as a layer of a
    model. Written from Python, all of it would lie in the caches of one core.
    """

    def __init__(self, options: ort.SessionOptions) -> None:
        vector = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
        one = numpy_helper.from_array(np.ones(1, np.float32), "one")
        node = helper.make_node("Mul", ["x", "one"], ["y"])
        graph = helper.make_graph([node], "warm", [vector], [result], [one])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10
        )
        providers = ["CPUExecutionProvider"]
        self._session = ort.InferenceSession(model.SerializeToString(), options, providers)

    def bindings(self, arrays: Iterable[Array]) -> list[ort.IOBinding]:
        """What :meth:`warm` takes, for those of the arrays that hold 32-bit floats."""
        made = []
        for array in arrays:
            if array.dtype == np.float32 and array.size:
                value = ort.OrtValue.ortvalue_from_numpy(array.reshape(-1))
                binding = self._session.io_binding()
                binding.bind_ortvalue_input("x", value)
                binding.bind_ortvalue_output("y", value)
                made.append(binding)
        return made

    def warm(self, bindings: Iterable[ort.IOBinding]) -> None:
        """Reads and writes each array, in their order."""
        for binding in bindings:
            self._session.run_with_iobinding(binding)
