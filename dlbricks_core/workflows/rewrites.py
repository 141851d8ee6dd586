"""What backends make of models: asked for, and kept for estimates that run nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import perf_counter

from dlbricks_core.bricks import CutModel
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.ir import CanonicalModel, packed, unpacked
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.measure.worker import START_BYTES, BackendWorker, WorkerSettings
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request


@dataclass
class Rewrites:
    """Graphs that a backend rewrites models into, by the models' positions.

    Attributes:
        graphs: The graphs.
        refused: Reason for each model without a graph.
        seconds: Seconds that the backend took.
    """

    graphs: dict[int, CanonicalModel] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0


def rewrite_models(
    models: Sequence[CanonicalModel], request: Request, observer: Observer
) -> Rewrites:
    """Graphs that the backend rewrites models into; none if it runs models as they are.

    Nothing is timed meanwhile, so models are rewritten side by side, one or a few for each core.
    """
    if not request.backend.traits.rewrites:
        return Rewrites()
    begin = perf_counter()
    positions = [i for i, model in enumerate(models) if not _is_opaque(model)]
    observer.stage(f"Asking {request.backend.name} what it makes of the models", len(positions))
    asked = [models[position] for position in positions]
    number = max(1, min(_at_once(request), len(asked), _held_at_once(asked)))
    rewrites = Rewrites()
    with ThreadPoolExecutor(number) as pool, ExitStack() as stack:
        idle = _benches(number, request, stack)
        # Whatever ends the loop: nothing may begin once the benches are closed.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        found = pool.map(lambda position: _answer(models[position], idle), positions)
        for position, answer in zip(positions, found, strict=True):
            name = models[position].name
            if isinstance(answer, DLBricksError):
                rewrites.refused[position] = answer.message
                observer.note(f"{name} is cut as it is: {answer.message}")
            else:
                rewrites.graphs[position] = answer
            observer.advance(name)
    rewrites.seconds = perf_counter() - begin
    return rewrites


def keep_rewrites(
    rewrites: Rewrites, models: Sequence[CutModel], request: Request, store: ResultStore
) -> None:
    """Keeps what the backend made of models in the store.

    Of a backend that runs models as they are, the models themselves are kept: where its plugin is
    not installed, nothing else tells that it does.

    Args:
        rewrites: Result of :func:`rewrite_models`.
        models: The same models, cut.
        request: The backend and its settings.
        store: Where the graphs are kept.
    """
    own: dict[int, CanonicalModel] = {}
    if not request.backend.traits.rewrites:
        own = {i: cut.model for i, cut in enumerate(models) if not _is_opaque(cut.model)}
    for position, graph in (own | rewrites.graphs).items():
        signature = models[position].whole.signature
        store.keep_rewrite(signature, request.setup, request.fingerprint, packed(graph))


def kept_rewrites(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore
) -> Rewrites:
    """Graphs that the store keeps of what a backend made of models; it asks no backend.

    Models of which it keeps none are refused, unless the backend runs models as they are.
    """
    rewrites = Rewrites()
    for position, model in enumerate(models):
        signature = CutModel(model, (), model).whole.signature
        data = store.rewrite(signature, request.setup, request.fingerprint)
        if data is None:
            if request.backend.traits.rewrites:
                rewrites.refused[position] = "the store does not keep that"
            continue
        try:
            rewrites.graphs[position] = unpacked(data, name=model.name, source=model.source)
        except ModelError as error:
            rewrites.refused[position] = error.message
    return rewrites


def _is_opaque(model: CanonicalModel) -> bool:
    """Whether the model has layers that the engine cannot look inside."""
    return any(layer.opaque for layer in model.layers)


def _at_once(request: Request) -> int:
    """Number of models that the cores can rewrite at a time."""
    traits = request.backend.traits
    threads = request.settings.threads if traits.rewrite_uses_all_threads else 1
    return max(1, physical_cores_available() // threads)


def _held_at_once(models: Sequence[CanonicalModel]) -> int:
    """Number of models that the memory can hold at a time, if all were as large as the largest."""
    largest = max((model.weight_bytes + model.live_bytes for model in models), default=0)
    return memory_to_use() // (largest + START_BYTES)


def _benches(number: int, request: Request, stack: ExitStack) -> SimpleQueue[BackendWorker]:
    share = memory_to_use() // number
    settings = WorkerSettings(request.settings, request.seed, request.timeout_s, share)
    idle: SimpleQueue[BackendWorker] = SimpleQueue()
    for _ in range(number):
        idle.put(
            stack.enter_context(BackendWorker(request.plugin.target, request.backend, settings))
        )
    return idle


def _answer(
    model: CanonicalModel, idle: SimpleQueue[BackendWorker]
) -> CanonicalModel | DLBricksError:
    bench = idle.get()
    try:
        return bench.rewrite(model)
    except DLBricksError as error:
        return error
    finally:
        idle.put(bench)
