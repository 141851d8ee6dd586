"""Memory and threads that bricks use as if they were layers of one model."""

from __future__ import annotations

import os
from functools import cache

import onnxruntime as ort

from dlbricks_core.errors import BackendError
from dlbricks_core.ir import Layer, Model

#: Layers that write over one of their inputs when nobody else needs it, and which ones; as
#: registered with ``MayInplace`` in ONNX Runtime 1.31. A fused sum copies it otherwise.
_IN_PLACE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), (0, 1)),
    **dict.fromkeys(("Relu", "Sum"), (0,)),
    "com.microsoft.FusedConv": (3,),
    "com.microsoft.nchwc.Conv": (3,),
}


def in_place(model: Model) -> dict[str, str]:
    """Results of an executed brick that take the place of one of its inputs.

    In the whole model ONNX Runtime plans this itself; it leaves a session's inputs alone.

    Returns:
        The input by the result.
    """
    places: dict[str, str] = {}
    for index, layer in enumerate(model.layers):
        taken = _taken(model, index, layer)
        if taken and taken not in places.values():
            places[layer.outputs[0]] = taken
    return places


def _taken(model: Model, index: int, layer: Layer) -> str:
    result = layer.outputs[0]
    for position in _IN_PLACE.get(layer.qualified_op, ()):
        name = layer.inputs[position] if position < len(layer.inputs) else ""
        if (
            name in model.inputs
            and result in model.output_names
            and name not in model.output_names
            and model.tensors[name] == model.tensors[result]
            and model.consumers[name][-1] == index
        ):
            return name
    return ""


@cache
def share_arena() -> None:
    """Lets all sessions of the process take memory for intermediate results from one arena.

    The layers of a model reuse what is in the caches; a brick with an arena of its own
    would find its memory cold in every round.
    """
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0,
                               ort.OrtMemType.DEFAULT)  # fmt: skip
    ort.create_and_register_allocator(memory, None)


OWN_PROCESS = "DLBRICKS_ONNXRUNTIME_WORKER"
"""Environment variable of workers, where no sessions but the timer's are."""


class ThreadPool:
    """The pool of threads that all sessions of the process share, once there is one.

    With a pool for each session, a brick's threads sleep until its turn comes, and waking
    them takes as long as a small brick. Only a worker that was started for it shares one:
    after that, ONNX Runtime refuses sessions with pools of their own in the same process.

    Its threads spin for some 20 ms after a run. That the next brick of the worker finds them
    awake is wanted; before another worker's turn, the engine waits until they sleep. Python
    has no way to forbid it: only pools of single sessions obey ``allow_spinning``.

    Attributes:
        threads: How many there are; ``None`` while sessions have pools of their own.
    """

    threads: int | None = None

    @classmethod
    def share(cls, threads: int) -> None:
        """Makes the pool, before the first session of the process.

        Raises:
            BackendError: If there is one with another number of threads: ONNX Runtime
                makes only one.
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
