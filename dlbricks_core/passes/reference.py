"""Runs a single layer with the ONNX reference evaluator."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from onnx import helper

from dlbricks_core.ir import Array, Layer
from dlbricks_core.ir.limits import MAX_RUN_NUMBER
from dlbricks_core.ir.onnx_writer import node_proto
from dlbricks_core.operators.table import operator

_log = logging.getLogger(__name__)


def run_layer(layer: Layer, inputs: Mapping[str, Array], opset: int) -> dict[str, Array] | None:
    """Results of a layer by name; ``None`` if the evaluator cannot compute all of them.

    Args:
        layer: A layer of a domain with known operator definitions.
        inputs: A value for every tensor that the layer reads.
        opset: Version of the operator set that the layer follows.
    """
    if operator(layer.op).costly or not _is_modest(layer):
        return None
    # Whoever lists plugins or writes a backend imports this room, and need not pay for numpy's
    # version of every operator.
    from onnx.reference import ReferenceEvaluator

    names = [name for name in layer.outputs if name]
    graph = helper.make_graph(
        [node_proto(layer)],
        "layer",
        [helper.make_empty_tensor_value_info(name) for name in layer.reads],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(layer.domain, opset)])
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception as error:  # noqa: BLE001 - the evaluator raises whatever numpy raises
        _log.debug("the reference evaluator cannot run %s: %s", layer.op, error)
        return None
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        return None
    return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def _is_modest(layer: Layer) -> bool:
    """Whether the numbers in a layer's attributes are small enough to run it."""
    numbers = (
        number
        for value in layer.attributes.values()
        for number in (value if isinstance(value, tuple) else (value,))
    )
    return all(abs(n) <= MAX_RUN_NUMBER for n in numbers if isinstance(n, int))
