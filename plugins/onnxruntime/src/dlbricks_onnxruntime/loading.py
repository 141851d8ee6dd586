"""Loaded networks: sessions that are bound to memory of this plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from dlbricks_core.backends import Array, Network
from dlbricks_core.ir import CanonicalModel, numpy_dtype
from dlbricks_core.operators.table import caches_with_room
from dlbricks_onnxruntime.buffers import aligned
from dlbricks_onnxruntime.sessions import value_of

if TYPE_CHECKING:
    from dlbricks_onnxruntime.offline import Optimized


@dataclass
class Loaded:
    """A session whose inputs and outputs are bound to arrays of this plugin.

    An output that is also an input shares its array: ONNX Runtime never writes such outputs.

    Attributes:
        model: CanonicalModel that the session runs.
        arrays: Arrays of inputs, of outputs, and of tensors that share their memory, by name.
        pristine: Original values of inputs that a result overwrites, by name.
        warmed: Memory to warm before a timed run, as bytes: results, then inputs.
        graph: The graph behind the session, if it was optimized beforehand.
    """

    session: ort.InferenceSession
    binding: ort.IOBinding
    model: CanonicalModel
    arrays: dict[str, Array]
    pristine: Mapping[str, Array] = field(default_factory=dict)
    warmed: Sequence[Array] = ()
    graph: Optimized | None = None


def allocate(network: Network, shared: Mapping[str, str]) -> dict[str, Array]:
    """Memory for every input and result of a network, with the inputs' values.

    Args:
        network: Network with the values of its inputs.
        shared: Tensors that share another tensor's memory, from :func:`places`.
    """
    model = network.model
    arrays = {name: aligned(network.inputs[name]) for name in model.inputs}
    share_caches(model, arrays)
    for name in model.outputs:
        if name not in arrays and name not in shared:
            spec = model.tensors[name]
            arrays[name] = aligned(np.zeros(spec.sizes, dtype=numpy_dtype(spec.dtype)))
    for name, place in shared.items():
        arrays[name] = arrays[place].reshape(model.tensors[name].sizes)
    return arrays


def share_caches(model: CanonicalModel, arrays: dict[str, Array]) -> None:
    """Gives caches after attention the memory of those before it, where these have room.

    Attention writes the same numbers to the same places in every run.
    """
    for present, past in caches_with_room(model).items():
        if past in model.input_names:
            arrays[present] = arrays[past]


def bind(
    session: ort.InferenceSession,
    model: CanonicalModel,
    arrays: Mapping[str, Array],
    graph: Optimized | None = None,
) -> Loaded:
    """Binds arrays to the inputs and outputs of a session.

    The session allocates outputs without an array.
    """
    binding = session.io_binding()
    for name in model.inputs:
        binding.bind_ortvalue_input(name, value_of(model.tensors[name], arrays[name]))
    for name in handed_on(model, arrays):
        if name in arrays:
            binding.bind_ortvalue_output(name, value_of(model.tensors[name], arrays[name]))
        else:
            binding.bind_output(name, "cpu")
    return Loaded(session, binding, model, dict(arrays), graph=graph)


def handed_on(model: CanonicalModel, arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """Names of the model's outputs, and of intermediate results with an array."""
    others = (name for name in arrays if name not in model.input_names)
    return tuple(dict.fromkeys((*model.outputs, *others)))
