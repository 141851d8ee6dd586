"""Cuts models as a composer requires: as they are, or as a backend rewrites them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dlbricks_core.analysis.values import ByValues
from dlbricks_core.backends import Traits
from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.compose import Composer, Plan
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Calibration, Note
from dlbricks_core.facts.note import note, warning
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites, keep_rewrites, rewrite_models
from dlbricks_core.operators.caches import caches_with_room
from dlbricks_core.plugins import find, use
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.worker import memory_to_use

# Memory footprint: the memory of a whole model on a backend, compared with the machine's.
#
# The footprint follows from sizes alone. It is a lower bound of the quantity ``peak-memory``, for
# which bricks run: scratch memory, code, and memory that an allocator keeps are not part of it.

_CACHE = re.compile(r"past|present")
"""Inputs and outputs with one of these words in their names are the cache of a decoder, as all
exporters name it: ``past_key_values.0.key``, ``present.0.value``."""


_TOKENS = 2
"""Axis of tokens in a cache with room for further ones."""

CHOSEN_SHARE = 0.25
"""Maximum share of the free memory for a whole model that runs without a user's request. Its
process takes up to twice the footprint."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that a model takes during loading and during runs, and bytes that are available.

    Attributes:
        weights_bytes: Bytes of the weights, including weights that no layer reads at these sizes.
        cache_bytes: Bytes of the keys and values that a decoder receives and returns.
        live_bytes: Maximum bytes of inputs and results at a time, without the cache.
        copies_bytes: Bytes of further copies of the weights that the framework keeps.
        loading_bytes: Bytes of weights and their copies while the framework loads a file.
        available_bytes: Bytes that are free here, or the memory of another system.
        token_bytes: Bytes by which one token of one text lengthens the cache.
    """

    weights_bytes: int
    cache_bytes: int
    live_bytes: int
    copies_bytes: int
    loading_bytes: int
    available_bytes: int
    token_bytes: float = 0.0

    @classmethod
    def of(cls, model: CanonicalModel, traits: Traits, available_bytes: int) -> Self | None:
        """Footprint of a model; ``None`` if sizes are unknown before the model runs.

        Args:
            model: Model in canonical form.
            traits: Traits of the backend.
            available_bytes: Available bytes, from :func:`available_to`.
        """
        if not all(spec.is_static for spec in model.tensors.values()):
            return None
        ends, roomy = {*model.inputs, *model.outputs}, caches_with_room(model)
        both = sum(model.tensors[name].nbytes for name in ends if _CACHE.search(name))
        cache = both - sum(model.tensors[name].nbytes for name in roomy)
        weights = model.weight_bytes + model.idle_bytes
        return cls(
            weights_bytes=weights,
            cache_bytes=cache,
            # The cache stays in memory from the beginning of a run to its end.
            live_bytes=model.live_bytes - both,
            copies_bytes=(traits.weights_held - 1) * weights,
            loading_bytes=traits.weights_loading * weights,
            available_bytes=available_bytes,
            token_bytes=_token_bytes(model),
        )

    @property
    def needed_bytes(self) -> int:
        """Peak bytes of the model: during loading, or during runs."""
        return max(self.loading_bytes, self.running_bytes)

    @property
    def running_bytes(self) -> int:
        """Total bytes of the model during runs."""
        return self.weights_bytes + self.cache_bytes + self.live_bytes + self.copies_bytes

    @property
    def fits(self) -> bool:
        """Whether the model fits into the available memory."""
        return self.needed_bytes <= self.available_bytes

    @property
    def is_modest(self) -> bool:
        """Whether the model may run without a user's request for its run."""
        return self.needed_bytes <= CHOSEN_SHARE * self.available_bytes

    def __str__(self) -> str:
        parts = {
            "weights": self.weights_bytes,
            "copies of these": self.copies_bytes,
            "cache": self.cache_bytes,
            "activations": self.live_bytes,
        }
        if self.loading_bytes > self.running_bytes:
            parts = {"while weights are loaded": self.loading_bytes, **parts}
        listed = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts.items() if size)
        return (
            f"it needs {gigabytes(self.needed_bytes)} GB of memory ({listed}), and "
            f"{gigabytes(self.available_bytes)} GB are free"
        )


def _token_bytes(model: CanonicalModel) -> float:
    """Bytes by which one token of one text lengthens the cache; 0 without a growing cache."""
    roomy = [model.tensors[name] for name in caches_with_room(model)]
    if roomy:
        return sum(each.nbytes / each.sizes[0] / each.sizes[_TOKENS] for each in roomy)
    before, after = ([model.tensors[name] for name in names if _CACHE.search(name)]
                     for names in (model.inputs, model.outputs))  # fmt: skip
    if len(before) != len(after):
        return 0.0
    grown = 0.0
    for old, new in zip(before, after, strict=True):
        tokens = max(map(int.__sub__, new.sizes, old.sizes), default=0)
        if tokens > 0:
            grown += (new.nbytes - old.nbytes) / tokens / new.sizes[0]
    return grown


def gigabytes(nbytes: float) -> str:
    """Bytes in units of 10^9, with one digit after the point below 10: ``4.2``, ``282``."""
    size = nbytes / 1e9
    return f"{size:,.0f}" if size >= 10 else f"{size:.1f}" if size >= 0.1 else f"{size:.2g}"


def available_to(request: Request) -> int:
    """Bytes that a model may take: the free memory here, or all memory of another system."""
    if request.elsewhere is None:
        return memory_to_use()
    other = request.elsewhere
    return min(filter(None, (other.memory, other.memory_limit)), default=0)


@dataclass(frozen=True)
class Cutting:
    """Models cut into bricks, and the plan for these.

    Attributes:
        options: How the models were cut, and how they are composed again.
        brickset: The models and their bricks.
        plan: Networks to time, and recipes for the figure of each brick.
        calibration: Fitted parameters behind the plan; ``None`` for the composer's defaults.
        seconds: Seconds in which the backend rewrote the models, part of the cost of benchmarking
            by bricks.
        footprints: Memory of each whole model by its signature, where known.
        runs_graphs: Whether whole models run as the graphs that the backend made of them, as it
            runs nothing else.
    """

    options: CutOptions
    brickset: BrickSet
    plan: Plan
    calibration: Calibration | None = None
    seconds: float = 0.0
    footprints: Mapping[str, Footprint] = field(default_factory=dict)
    runs_graphs: bool = False

    def whole(self, cut: CutModel) -> Brick:
        """A whole model as one brick, as the backend runs it."""
        return Brick(cut.whole.signature, cut.graph) if self.runs_graphs else cut.whole

    @property
    def memory_notes(self) -> tuple[Note, ...]:
        """Notes on whole models that fit, but do not run because of the memory that they take."""
        return tuple(
            note(
                "whole-takes-much-memory",
                cut.model.name,
                needed_bytes=each.needed_bytes,
                available_bytes=each.available_bytes,
                most_share=CHOSEN_SHARE,
            )
            for cut in self.brickset.models
            if (each := self.footprints.get(cut.whole.signature)) is not None
            and each.fits
            and not each.is_modest
        )

    def only(self, positions: Sequence[int]) -> Cutting:
        """The part for some models, with their bricks.

        Args:
            positions: Positions of the models that stay, in order.
        """
        models = [self.brickset.models[i] for i in positions]
        kept = dict.fromkeys(signature for cut in models for signature in cut.counts)
        bricks = {signature: self.brickset.bricks[signature] for signature in kept}
        return replace(self, brickset=replace(self.brickset, bricks=bricks, models=models))

    @classmethod
    def all_timed(cls, options: CutOptions, brickset: BrickSet) -> Cutting:
        """A cutting in which all bricks are timed, for any composer."""
        return cls(options, brickset, Plan.all_timed(brickset.bricks))


def cut_models(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    observer: Observer,
    store: ResultStore | None = None,
    *,
    rewrites: Rewrites | None = None,
    calibrated: bool = True,
) -> Cutting:
    """Cuts models into bricks and plans their timing.

    If the backend cannot run a model, the model itself is cut, and a note says so. Its bricks then
    show which layers are unsupported. A backend that runs blocks only cannot run such bricks.
    Layers that canonical form folded are put back for a backend that computes them in each run.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose.
        request: The backend and its settings.
        observer: Receives the progress.
        store: Store that has the composer's calibration, and keeps graphs that are rewritten now;
            ``None`` for no store.
        rewrites: Graphs that the backend made of the models before. If it is ``None`` and the
            composer needs them, the backend rewrites the models.
        calibrated: Whether a calibration counts.

    Raises:
        DLBricksError: If a backend that runs blocks only cannot rewrite a model.
    """
    if not request.backend.traits.folds_weights and any(model.folded for model in models):
        from dlbricks_core.passes.drop_unread import unfolded  # few models have such layers

        models = [unfolded(model) for model in models]
    plugin = find("composer", cut_options.composer, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    if not composer.cuts_rewritten:
        rewrites = Rewrites()
    elif rewrites is None:
        rewrites = rewrite_models(models, request, observer)
        if store is not None:
            keep_rewrites(rewrites, models, request, store)
        if request.backend.traits.blocks_only and rewrites.refused:
            position, reason = next(iter(rewrites.refused.items()))
            raise DLBricksError(
                f"{request.backend.name} cannot run {models[position].name}: {reason}",
                hint="Leave it out, or choose another backend.",
            )
    elif request.backend.traits.blocks_only and rewrites.refused:
        name = models[min(rewrites.refused)].name
        raise DLBricksError(
            f"{name} was never measured with {request.backend.name} in this setup",
            hint=f"Add {argument('measure')}.",
        )
    observer.stage("Cutting models into bricks")
    granularity, strategy = cut_options.granularity, cut_options.strategy
    brickset = BrickSet.of(
        models, granularity, strategy, rewrites.graphs, rereading=composer.rereading
    )
    calibration = None
    if store is not None and calibrated:
        calibration = store.calibration(request.calibration_key(cut_options))
    fitted = composer.calibrated(calibration.values) if calibration else composer

    def planned() -> Plan:
        found = fitted.plan(brickset.bricks, request.setup, request.target)
        if not isinstance(found, Plan):
            raise TypeError(f"plan() returned {found!r} instead of a plan")
        if lacking := brickset.bricks.keys() - found.recipes.keys():
            raise ValueError(f"the plan has no recipe for {len(lacking)} bricks")
        return found

    plan = use(plugin, planned)
    if request.metric and plan.timed.keys() != brickset.bricks.keys():
        raise DLBricksError(
            f"the composer {composer.name!r} is not for {request.quantity.name}: it derives "
            "latencies of bricks from those of others",
            hint=f"Leave {argument('composer')} out.",
        )
    footprints = _footprints(brickset, request)
    cuts = [
        replace(cut, notes=tuple(_notes(position, cut.model, request, rewrites)))
        for position, cut in enumerate(brickset.models)
    ]
    return Cutting(
        cut_options,
        replace(brickset, models=cuts),
        plan,
        calibration,
        rewrites.seconds,
        footprints,
        runs_graphs=request.backend.traits.blocks_only,
    )


def _notes(
    position: int, model: CanonicalModel, request: Request, rewrites: Rewrites
) -> Iterator[Note]:
    """Notes on how a model was cut, and on what decides how long it takes."""
    backend = request.backend
    if position in rewrites.refused:
        yield note("cut-as-it-is", backend=backend.name, reason=rewrites.refused[position])
    if position in rewrites.shortened:
        layers, of_layers = rewrites.shortened[position], len(model.layers)
        yield note("blocks-repeat", backend=backend.name, layers=layers, of_layers=of_layers)
    if model.is_slowed:
        yield warning("denormal-weights", share=model.denormal_share)
    # The bricks of loops that the backend runs as loops are their steps.
    if model.loop_steps and backend.opens(model.source):
        yield note("loops-written-out", steps=model.loop_steps)
    # Values of inputs are drawn.
    found = ByValues.of(model)
    if found.operators:
        yield note("values-decide-branches", operators=list(found.operators))
    if found.tables:
        yield note("indices-decide-look-ups", tables=found.tables, table_bytes=found.table_bytes)


def _footprints(brickset: BrickSet, request: Request) -> Mapping[str, Footprint]:
    available, traits = available_to(request), request.backend.traits
    found = {c.whole.signature: Footprint.of(c.model, traits, available) for c in brickset.models}
    return {signature: each for signature, each in found.items() if each is not None}
