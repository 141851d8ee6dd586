"""Cuts models as a composer wants them: as they are, or as a backend executes them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from time import perf_counter

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.measure.worker import START_BYTES, BackendWorker, WorkerSettings
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.composing import CutOptions, find_composer
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request


def cut_models(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    observer: Observer,
    answers: Answers | None = None,
) -> tuple[BrickSet, float]:
    """The bricks of models, and how the models consist of them.

    Where the backend cannot run a model, the model itself is cut, which its notes tell: its
    bricks then say which layers are to blame.

    Args:
        models: In canonical form.
        cut_options: How to cut and compose.
        request: The backend and how it is set.
        observer: Told of progress.
        answers: What :func:`ask` found; asked for where the composer wants it otherwise.

    Returns:
        The bricks, and the seconds that it took to ask the backend: a cost of
        benchmarking by bricks.
    """
    composer = find_composer(cut_options.composer)
    if not composer.executed:
        answers = Answers()
    elif answers is None:
        answers = ask(models, request, observer)
    observer.stage("Cutting models into bricks")
    granularity, strategy = cut_options.granularity, cut_options.strategy
    brickset = BrickSet.of(
        models, granularity, strategy, answers.executed, rereading=composer.rereading
    )
    brickset = sparing(brickset, composer)
    for position, reason in answers.refused.items():
        note = f"cut as it is, for {request.backend.name} does not tell what it executes: {reason}"
        brickset.models[position] = replace(brickset.models[position], notes=(note,))
    return brickset, answers.seconds


def sparing(brickset: BrickSet, composer: Composer) -> BrickSet:
    """The same bricks, without timing those that the composer tells from others."""
    spared = brickset.bricks.keys() - composer.to_time(brickset.bricks)
    tiles = {signature: tuple(t) for signature, t in composer.tiles(brickset.bricks).items()}
    models = [
        replace(cut, tiles={s: tiles[s] for s in cut.counts if s in tiles})
        for cut in brickset.models
    ]
    return replace(brickset, spared=frozenset(spared), models=models)


@dataclass
class Answers:
    """What a backend makes of models, or why it does not tell; by the models' position.

    Attributes:
        executed: What it makes of them.
        refused: Why it does not tell.
        seconds: That it took to ask.
    """

    executed: dict[int, CanonicalModel] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0


def ask(models: Sequence[CanonicalModel], request: Request, observer: Observer) -> Answers:
    """What the backend makes of models; nothing if it executes them as they are.

    About as many are asked for at once as there are cores for: nothing is timed meanwhile.
    """
    if not request.backend.traits.rewrites:
        return Answers()
    begin = perf_counter()
    positions = [i for i, m in enumerate(models) if not any(layer.opaque for layer in m.layers)]
    observer.stage(f"Asking {request.backend.name} what it makes of the models", len(positions))
    asked = [models[position] for position in positions]
    number = max(1, min(_at_once(request), len(asked), _held_at_once(asked)))
    answers = Answers()
    with ThreadPoolExecutor(number) as pool, ExitStack() as stack:
        idle = _benches(number, request, stack)
        # Whatever ends the loop: nothing may begin once the benches are closed.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        found = pool.map(lambda position: _answer(models[position], idle), positions)
        for position, answer in zip(positions, found, strict=True):
            name = models[position].name
            if isinstance(answer, DLBricksError):
                answers.refused[position] = answer.message
                observer.note(f"{name} is cut as it is: {answer.message}")
            else:
                answers.executed[position] = answer
            observer.advance(name)
    answers.seconds = perf_counter() - begin
    return answers


def _at_once(request: Request) -> int:
    """How many models the cores are enough for to be asked about at a time."""
    traits = request.backend.traits
    threads = request.settings.threads if traits.rewrite_uses_all_threads else 1
    return max(1, physical_cores_available() // threads)


def _held_at_once(models: Sequence[CanonicalModel]) -> int:
    """How many of the models the memory is enough for, by the largest of them."""
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
