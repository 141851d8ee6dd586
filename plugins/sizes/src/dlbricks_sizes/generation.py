"""Text generation: time to the first token, and time per output token."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dlbricks_core.commands.options.workload import PHASES, TASKS, Workload
from dlbricks_core.compose import Estimate
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.estimation.defaults import GENERATE, PROMPT
from dlbricks_core.estimation.model_result import Compared, ModelResult
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import LATENCY, Note
from dlbricks_core.figures.figure import Combined
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.passes.options import OpenDimension
from dlbricks_core.wording import argument
from dlbricks_sizes.answers import FIRST_TOKEN, OUTPUT_TOKEN, Answer, SizeCurve, SizePoint
from dlbricks_sizes.decoder import DecoderDimensions
from dlbricks_sizes.engine import with_engine
from dlbricks_sizes.figures import AnswersAndCurves
from dlbricks_sizes.interpolation import mean_weights, spread_over
from dlbricks_sizes.joint import with_joint_fit
from dlbricks_sizes.loading import Sized, SizedModel
from dlbricks_sizes.notes import note
from dlbricks_sizes.roofline import Roofline, within
from dlbricks_sizes.sizing import Axes, Sizes, by_dimension, check_axes, grid
from dlbricks_sizes.workloads import Time, Times

_DEPTHS = 3
"""Number of cache sizes at which a token is estimated: its time grows almost linearly with the
cache.
"""


AXES = ("prompt", "generate", "depth", "batch")
"""Axes of a sweep over workloads: the fields of a workload."""

_LEAST: Mapping[str, int] = {"prompt": 1, "generate": 1, "depth": 0, "batch": 1}
"""Least value of each axis: tokens, or sequences."""


@dataclass(frozen=True)
class Generation(Sized):
    """Request for the speed of text generation.

    Attributes:
        axes: Values by the fields of a workload, in display order; tuples by several fields.

    Raises:
        DLBricksError: If a workload has no such field, a value is too small, or there are too many
            workloads.
    """

    axes: Axes
    phases: ClassVar[Sequence[str]] = PHASES

    def __post_init__(self) -> None:
        check_axes(self.axes)
        for name, values in by_dimension(self.axes).items():
            if name not in AXES:
                raise DLBricksError(
                    f"{argument('sweep')} {name}: a workload has no {name!r}",
                    hint=f"With {argument('prompt')} or {argument('generate')}, sweep over "
                    f"{', '.join(AXES)}; without them, over any open dimension.",
                )
            if min(values) < _LEAST[name]:
                raise DLBricksError(
                    f"{argument(name)} {min(values)} is too small",
                    hint=f"Use {_LEAST[name]} or more.",
                )

    @property
    def workloads(self) -> list[Workload]:
        """All workloads."""
        usual = {"prompt": PROMPT, "generate": GENERATE}
        return [Workload(**{**usual, **values}) for values in grid(self.axes)]

    def sizes(self, name: str, dimensions: Sequence[OpenDimension]) -> list[Sizes]:
        """Sizes for all prompts and for tokens at a few depths, without duplicates.

        Raises:
            ModelError: If the model is not a decoder with open dimensions and a cache, or has an
                encoder, and the cache of the workload is not empty.
        """
        found = DecoderDimensions.of(name, dimensions)
        if found.encodes and any(workload.depth for workload in self.workloads):
            raise ModelError(
                f"{name} has an encoder, so no tokens come before the prompt",
                hint="Leave depth out.",
            )
        wanted = (
            each for workload in self.workloads for each in sizes_of(found, workload).values()
        )
        return list(dict.fromkeys(wanted))

    def completed(self, models: Sequence[SizedModel], result: RunResult) -> RunResult:
        """The result of a run, with an answer for each model and workload.

        Only latencies give times. For another quantity, the result has a curve for each model:
        figures for the prompts, and for tokens at the depths. An estimate below the roofline is a
        failure.
        """
        if result.request.metric:
            found = {each.cut.model.name: each for each in result.models}
            curves = [self._curve(each, found) for each in models]
            return replace(result, over_sizes=AnswersAndCurves(curves=curves))
        result = self._with_scores(models, of_answers(models, result))
        found = {each.cut.model.name: each for each in result.models}
        answers = []
        for each in models:
            dimensions = DecoderDimensions.of(each.name, each.dimensions)
            for workload in self.workloads:
                sizes = sizes_of(dimensions, workload)
                results = {p: found[each.models[s].name] for p, s in sizes.items()}
                answers.append(_answer(each.name, workload, results))
        return replace(result, over_sizes=AnswersAndCurves(answers))

    def _with_scores(self, models: Sequence[SizedModel], result: RunResult) -> RunResult:
        """The result with a note on each prompt of which the model scores all tokens."""
        notes = {}
        for each in models:
            dimensions = DecoderDimensions.of(each.name, each.dimensions)
            for workload in self.workloads:
                model = each.models[sizes_of(dimensions, workload)[_PROMPT]]
                notes[model.name] = (*_of_scores(model, workload), *_of_context(model, workload))
        results = [
            replace(each, notes=(*each.notes, *notes.get(each.cut.model.name, ())))
            for each in result.models
        ]
        return replace(result, models=results)

    def _curve(self, model: SizedModel, found: Mapping[str, ModelResult]) -> SizeCurve:
        """Figures of a model by the number of new tokens, and of tokens in the cache."""
        dimensions = DecoderDimensions.of(model.name, model.dimensions)
        points: dict[Sizes, SizePoint] = {}
        for workload in self.workloads:
            for depth, sizes in sizes_of(dimensions, workload).items():
                tokens = {"tokens": 1, "cache": depth}
                if depth == _PROMPT:
                    tokens = {"tokens": workload.prompt, "cache": workload.depth}
                batch = {"batch": workload.batch} if "batch" in by_dimension(self.axes) else {}
                result = found[model.models[sizes].name]
                points.setdefault(sizes, SizePoint({**tokens, **batch}, result))
        return SizeCurve(model.name, list(points.values()))


def of_answers(models: Sequence[SizedModel], result: RunResult) -> RunResult:
    """The result of a run, with latencies of which answers are sums.

    They are of one fit, not below the roofline, and include the Python of the backend's engine.

    Args:
        models: Language models at all sizes of their answers.
        result: Result for all of these models.
    """
    roof = Roofline.of(result)
    # The fit may lower an estimate, so its results are held against the roofline, too.
    return with_engine(within(roof, with_joint_fit(models, within(roof, result))))


_SCORES = "logits"
"""Name of the output with the scores of the next token, where exporters name it."""


def _of_scores(model: CanonicalModel, workload: Workload) -> tuple[Note, ...]:
    """A note on a user's file that scores all tokens of a prompt, where the last one is enough."""
    if model.configuration:
        # The sentence on the engine states which tokens are scored, and no export changes that.
        return ()
    name = _SCORES if _SCORES in model.output_names else model.outputs[0]
    spec = model.tensors[name]
    rows = math.prod(spec.sizes[:-1]) if spec.is_static and spec.rank else 0
    if workload.prompt == 1 or rows != workload.prompt * workload.batch:
        return ()
    return (note("scores-of-all-tokens", output=name, tokens=workload.prompt),)


def _of_context(model: CanonicalModel, workload: Workload) -> tuple[Note, ...]:
    """A note on texts that are longer than the configuration of a language model allows."""
    longest = _context(json.loads(model.configuration or "{}"))
    tokens = workload.depth + workload.prompt + workload.generate
    if longest is None or tokens <= longest:
        return ()
    return (note("beyond-context", tokens=tokens, longest=longest),)


def _context(configuration: Mapping[str, Any]) -> int | None:
    """Tokens that a model of one stack is for; ``None`` where its configuration does not say."""
    found = configuration.get("max_position_embeddings")
    if configuration.get("is_encoder_decoder") or not isinstance(found, int):
        return None
    scaling = configuration.get("rope_scaling") or configuration.get("rope_parameters")
    if not isinstance(scaling, Mapping):
        return found
    factor = scaling.get("factor")
    before = scaling.get("original_max_position_embeddings") or found
    if not isinstance(factor, int | float) or not isinstance(before, int):
        return found
    return max(found, int(before * factor))


def of_task(task: str | None) -> dict[str, tuple[int, ...]]:
    """Axes of the workload of a task; empty without a task.

    Raises:
        DLBricksError: If there is no such task.
    """
    if task is None:
        return {}
    if task not in TASKS:
        raise DLBricksError(
            f"{argument('task')} cannot be {task!r:.40}", hint=f"Choose from {', '.join(TASKS)}."
        )
    return {"prompt": (TASKS[task].prompt,), "generate": (TASKS[task].generate,)}


_PROMPT = -1
"""Key of the prompt among depths."""


def sizes_of(dimensions: DecoderDimensions, workload: Workload) -> dict[int, Sizes]:
    """Sizes for the prompt, and for one token at a few depths, by the depth."""
    batch, read = workload.batch, workload.prompt
    if dimensions.encodes:
        prompt = dimensions.sizes(1, 0, batch, read)
    else:
        prompt = dimensions.sizes(read, workload.depth, batch)
    found = {_PROMPT: replace(prompt, phase="prompt")}
    if workload.depths:
        for depth in spread_over(workload.depths, _DEPTHS):
            # An encoder's tokens are in no cache of the decoder, which began with one token.
            past, encoded = (depth - read + 1, read) if dimensions.encodes else (depth, 0)
            found[depth] = dimensions.sizes(1, past, batch, encoded)
    return found


def _answer(name: str, workload: Workload, results: Mapping[int, ModelResult]) -> Answer:
    """The answer from results for the prompt and for some depths."""
    prefill = results[_PROMPT]
    curve = {depth: each for depth, each in results.items() if depth != _PROMPT}
    times = times_of(workload, results)
    token = times[OUTPUT_TOKEN].compared if OUTPUT_TOKEN in times else None
    total = times[LATENCY].compared
    return Answer(name, workload, prefill.compared, token, total, prefill, curve)


def times_of(workload: Workload, results: Mapping[int, ModelResult]) -> Times:
    """Times of the answer, each a weighted sum of the results."""
    prefill = results[_PROMPT]
    first = Time(prefill.compared, [(1.0, prefill)])
    curve = {depth: each for depth, each in results.items() if depth != _PROMPT}
    if not curve:
        return {LATENCY: first, FIRST_TOKEN: first}
    weights = mean_weights(workload.depths, list(curve))
    tokens = list(zip(map(float, weights), curve.values(), strict=True))
    further = len(workload.depths)
    total = [(1.0, prefill), *((further * weight, each) for weight, each in tokens)]
    return {
        LATENCY: Time(_sum(total), total),
        FIRST_TOKEN: first,
        OUTPUT_TOKEN: Time(_sum(tokens), tokens),
    }


def _sum(parts: Sequence[tuple[float, ModelResult]]) -> Compared:
    """Weighted sum of results, which preserves the correlation of their figures."""
    estimate = Estimate.weighted([(weight, each.estimate) for weight, each in parts])
    measured = [(weight, each.measured) for weight, each in parts if each.measured is not None]
    whole = Combined(tuple(measured)) if len(measured) == len(parts) else None
    return Compared(estimate, whole)
