"""The graph that ONNX Runtime really executes: fused, and in its blocked layout."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import ModelProto, helper

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.bricks import materialize
from dlbricks_core.ir import Array, Model, dtype_name, read_model
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_onnxruntime.sessions import create_session, session_options, without_optimizations


def executed(model: Model, settings: BackendSettings, seed: int) -> Model:
    """What is left of a model after ONNX Runtime's optimizations, to be run without them.

    ONNX Runtime saves its optimized graph. The layers' shapes are not all in there: one
    run of it, with every tensor for an output, tells them.

    Args:
        model: In canonical form, without opaque layers.
        settings: Whose ``optimizations`` are applied.
        seed: Of the weights, whose values decide nothing but what is folded.
    """
    network = materialize(model, seed)
    with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
        options = _unpacked(session_options(settings))
        path = saving(options, Path(folder))
        create_session(named(model), network.weights, options)
        proto = onnx.load(path, load_external_data=False)
        values = _complete(proto, path, network, settings)
        made = read_model(proto, name=model.name, source=model.source, base_dir=path.parent)
    computed = {name: value for name, value in values.items() if _may_be_sizes(value)}
    return replace(made, executed="onnxruntime", constants={**computed, **made.constants})


def named(model: Model) -> Model:
    """The model with a name of its own for every layer.

    ONNX Runtime derives names of what it makes from those of what it finds, and tells
    layers apart by them when it profiles.
    """
    names = {layer.name for layer in model.layers}
    if "" not in names and len(names) == len(model.layers):
        return model
    layers = (replace(layer, name=f"{layer.op}_{i}") for i, layer in enumerate(model.layers))
    return replace(model, layers=tuple(layers))


def saving(options: ort.SessionOptions, folder: Path) -> Path:
    """Where a session with these options will write the graph that it executes."""
    path = folder / "executed.onnx"
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry(_WEIGHTS_FILE, "weights")
    return path


_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"


def _complete(
    proto: ModelProto, path: Path, network: Network, settings: BackendSettings
) -> dict[str, Array]:
    """Writes type and shape of every tensor into the graph, from one run that it returns."""
    graph = proto.graph
    names = list(dict.fromkeys(name for node in graph.node for name in node.output if name))
    outputs = list(graph.output)
    del graph.output[:]
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    onnx.save(proto, path)
    options = _unpacked(session_options(without_optimizations(settings)))
    session = ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    values = dict(zip(names, session.run(names, dict(network.inputs)), strict=True))
    del graph.output[:]
    graph.output.extend(outputs)
    del graph.value_info[:]
    graph.value_info.extend(
        helper.make_tensor_value_info(name, DTYPE_NUMBERS[dtype_name(value.dtype)], value.shape)
        for name, value in values.items()
    )
    return values


def _unpacked(options: ort.SessionOptions) -> ort.SessionOptions:
    """For a session that nobody times: kernels leave large weights in the order they have."""
    options.add_session_config_entry("session.disable_prepacking", "1")
    return options


def _may_be_sizes(value: Array) -> bool:
    """Whether a result may be a shape, or what a shape is computed from."""
    return value.dtype == np.int64 and value.ndim < 2 and value.size <= _MAX_AXES


_MAX_AXES = 8
