"""Memory and threads that all bricks of a worker share, as the layers of a model do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import numpy as np
import onnxruntime as ort

from dlbricks_core.backends import Array
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.ir.tensors import aligned_empty
from dlbricks_core.operators.table import made_into_indices

#: Inputs that a layer may overwrite with its result if no other layer reads them, by operator;
#: registered with ``MayInplace`` in ONNX Runtime 1.31. A fused sum otherwise copies the input.
_IN_PLACE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), (0, 1)),
    **dict.fromkeys(("Relu", "Sum"), (0,)),
    "com.microsoft.FusedConv": (3,),
    "com.microsoft.nchwc.Conv": (3,),
}

#: Operators whose result is their first input under another shape (``Alias``). They copy only
#: if the result has memory of its own.
_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def places(model: CanonicalModel) -> dict[str, str]:
    """Tensors of an executed brick that share memory with one of its inputs or outputs.

    In a whole model ONNX Runtime plans this sharing itself, but it never reuses the memory of a
    session's inputs and outputs. A tensor that a layer overwrites in place inside a model would be
    copied in a brick.

    Inputs of index computations keep their memory. If results overwrote them and a later run read
    them without restoring, indices would be out of range.

    Returns:
        For each tensor's name, the input or result whose memory it shares.
    """
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for index, layer in enumerate(model.layers):
        taken = _taken(model, index, layer)
        if taken and taken not in after:
            before[layer.outputs[0]] = taken
            after[taken] = layer.outputs[0]
    found: dict[str, str] = {}
    ends = model.input_names | model.output_names
    for name in dict.fromkeys((*before, *after)):
        first, last = _end(name, before), _end(name, after)
        kept = first if first in model.input_names else last
        if name != kept and kept in ends:
            found[name] = kept
    fixed = made_into_indices(model.layers)
    return {
        name: kept
        for name, kept in found.items()
        if not _seen_anyway(model, name, kept) and kept not in fixed
    }


def _seen_anyway(model: CanonicalModel, name: str, kept: str) -> bool:
    """Whether a tensor is a mere reshape of an input, which ONNX Runtime reads in place."""
    operator = model.layers[model.producers[name]].qualified_op
    return operator in _VIEWS and kept in model.input_names and name not in model.output_names


def _taken(model: CanonicalModel, index: int, layer: Layer) -> str:
    """Input whose memory the layer's result reuses in the model; empty if there is none."""
    specs, result = model.tensors, layer.outputs[0]
    if layer.qualified_op in _VIEWS and layer.inputs[0] not in model.weights:
        name = layer.inputs[0]
        same = specs[name].dtype == specs[result].dtype and name not in model.output_names
        return name if same and model.consumers[name][-1] == index else ""
    for position in _IN_PLACE.get(layer.qualified_op, ()):
        name = layer.inputs[position] if position < len(layer.inputs) else ""
        if (
            name in specs
            and name not in model.weights
            and name not in model.output_names
            and specs[name] == specs[result]
            and model.consumers[name][-1] == index
        ):
            return name
    return ""


def _end(name: str, following: Mapping[str, str]) -> str:
    while name in following:
        name = following[name]
    return name


def aligned(array: Array) -> Array:
    """A copy that is aligned to a cache line, like ONNX Runtime's own memory."""
    copy = aligned_empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


@cache
def share_arena() -> None:
    """Makes all sessions of the process allocate intermediate results from one arena.

    The layers of a model reuse memory that is in the caches. A brick with an arena of its own would
    find its memory cold in every round.
    """
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0,
                               ort.OrtMemType.DEFAULT)  # fmt: skip
    ort.create_and_register_allocator(memory, None)


OWN_PROCESS = "DLBRICKS_ONNXRUNTIME_WORKER"
"""Environment variable that marks a worker, whose only sessions are those of the timer."""


class ThreadPool:
    """Thread pool that all sessions of the process share, once it exists.

    With one pool per session, the threads of a brick sleep until its turn, and waking them takes as
    long as a small brick. Only a worker shares a pool, because ONNX Runtime then refuses sessions
    with their own pools in the same process.

    The threads spin for some 20 ms after a run. It is intended that the next brick of the worker
    finds them awake. Before another worker's turn, the engine waits until they sleep. Python cannot
    disable spinning: only pools of single sessions obey ``allow_spinning``.

    Attributes:
        threads: Number of threads; ``None`` while every session has a pool of its own.
    """

    threads: int | None = None

    @classmethod
    def share(cls, threads: int) -> None:
        """Creates the pool, before the first session of the process.

        Raises:
            BackendError: If a pool with another number of threads exists: ONNX Runtime supports
                only one.
        """
        if OWN_PROCESS not in os.environ:
            return
        if cls.threads is None:
            ort.set_global_thread_pool_sizes(threads, 1)
            cls.threads = threads
        elif cls.threads != threads:
            raise BackendError(
                f"ONNX Runtime runs on {cls.threads} thread(s) in this process, not {threads}",
                hint="Use another process for another number of threads.",
            )
