"""Cuts models as a composer wants them: as they are, or as a backend rewrites them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from time import perf_counter

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer, Plan
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Calibration
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.measure.worker import START_BYTES, BackendWorker, WorkerSettings
from dlbricks_core.plugins import find, use
from dlbricks_core.wording import argument
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request


@dataclass(frozen=True)
class Cutting:
    """Models cut into bricks, and the plan for these.

    Attributes:
        options: How the models were cut, and how they are composed again.
        brickset: The models and their bricks.
        plan: What is timed, and how the figure of each brick follows.
        calibration: Fitted numbers that the plan rests on; ``None`` for the composer's own.
        seconds: Seconds that the backend took to rewrite the models: a cost of benchmarking by
            bricks.
    """

    options: CutOptions
    brickset: BrickSet
    plan: Plan
    calibration: Calibration | None = None
    seconds: float = 0.0

    @classmethod
    def all_timed(cls, options: CutOptions, brickset: BrickSet) -> Cutting:
        """Models of which each brick is timed itself, whatever the composer."""
        return cls(options, brickset, Plan.all_timed(brickset.bricks))


def cut_models(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    observer: Observer,
    calibration: Calibration | None = None,
    rewrites: Rewrites | None = None,
) -> Cutting:
    """Cuts models into bricks and plans what is timed for these.

    If the backend cannot run a model, the model itself is cut, and its notes say so: its bricks
    then show which layers are to blame.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose.
        request: The backend and its settings.
        observer: Hears of progress.
        calibration: Fitted numbers for the composer; ``None`` for its own.
        rewrites: Result of :func:`rewrite_models`. If it is ``None`` and the composer needs it, the
            backend is asked.
    """
    plugin = find("composer", cut_options.composer, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    if not composer.cuts_rewritten:
        rewrites = Rewrites()
    elif rewrites is None:
        rewrites = rewrite_models(models, request, observer)
    observer.stage("Cutting models into bricks")
    granularity, strategy = cut_options.granularity, cut_options.strategy
    brickset = BrickSet.of(
        models, granularity, strategy, rewrites.graphs, rereading=composer.rereading
    )
    for position, reason in rewrites.refused.items():
        note = f"cut as it is, for {request.backend.name} does not tell what it executes: {reason}"
        brickset.models[position] = replace(brickset.models[position], notes=(note,))
    calibrated = composer.calibrated(calibration.values) if calibration else composer
    plan = use(plugin, partial(calibrated.plan, brickset.bricks, request.setup, request.target))
    if request.probe and plan.timed.keys() != brickset.bricks.keys():
        raise DLBricksError(
            f"the composer {composer.name!r} is not for {request.quantity.name}: it takes the "
            "latency of bricks from that of others",
            hint=f"Leave {argument('composer')} out.",
        )
    return Cutting(cut_options, brickset, plan, calibration, rewrites.seconds)


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
    positions = [i for i, m in enumerate(models) if not any(layer.opaque for layer in m.layers)]
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
