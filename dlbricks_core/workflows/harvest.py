"""Harvests: what a model that the user's own program runs tells about bricks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from dlbricks_core.backends.burst import Burst
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.turns import turn
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.adaptive.wholes import WholeRuns
from dlbricks_core.workflows.composing import LEARNED_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.dial.precisions import USUAL
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request


def harvest(
    model: CanonicalModel,
    samples_ms: Sequence[float],
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> int:
    """Keeps latencies of a model that the user's program saw, and those of its bricks.

    Args:
        model: In canonical form.
        samples_ms: Latency of each run in milliseconds. The first of several is left out: it warms
            up.
        request: Backend and threads of the user's program.
        store: Store of the measurements.
        observer: Receives the progress.

    Returns:
        Number of bricks whose latencies were kept.

    Raises:
        DLBricksError: If the framework cannot profile the model.
    """
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    (cut,) = cut_models([model], options, request, observer).brickset.models
    with ExitStack() as opened:
        opened.enter_context(turn(observer.note))
        runs = WholeRuns(request.hot, store, observer, opened)
        runs.take(cut, samples_ms[1:] or samples_ms, Burst.within(USUAL))
        return len(runs.bricks())
