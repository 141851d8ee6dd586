"""Models under load in Python: throughput and tail latency of n instances x m threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dlbricks_core import report
from dlbricks_core.api.arguments import checked
from dlbricks_core.api.inputs import (
    Measuring,
    Sources,
    Store,
    cut_options,
    models_of,
    opened_store,
    refuse_stored,
    request_of,
)
from dlbricks_core.api.results import MeasuredResult, Rows, listed
from dlbricks_core.errors import DLBricksError
from dlbricks_core.report.scenarios.data import scenario_data
from dlbricks_core.report.scenarios.words import best as best_in_words
from dlbricks_core.report.scenarios.words import told
from dlbricks_core.report.scenarios.words import warnings as warnings_of
from dlbricks_core.wording import argument, settings
from dlbricks_core.workflows import NO_PREDICTOR, PREDICTOR, Observer, at_system, known_setups
from dlbricks_core.workflows.scenarios.estimated import estimate_scenario
from dlbricks_core.workflows.scenarios.run import Asked, UnderLoad, run_scenario


def serve(
    models: Sources,
    scenario: str,
    *,
    backend: str,
    instances: int | Sequence[int] | None = None,
    threads: int | Sequence[int] | None = None,
    latency_bound_ms: float | None = None,
    duration_s: float | None = None,
    end_to_end: bool = False,
    granularity: int | None = None,
    split: str | None = None,
    composer: str | None = None,
    protocol: str | None = None,
    seed: int | None = None,
    timeout_s: float | None = None,
    force: bool | None = None,
    stored: bool = False,
    predictor: str | None = None,
    system: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
) -> Served:
    """Throughput and tail latency of instances of models in a scenario of MLPerf.

    Figures are composed from bricks that are timed while other instances run. The time to measure
    them is fixed, so there is no argument for a precision or a number of runs. With ``stored``,
    nothing runs.

    Args:
        models: One or several, as :func:`load` takes them.
        scenario: ``"offline"``, ``"server"``, ``"single-stream"`` or ``"multi-stream"``.
        backend: Name of the framework's plugin.
        instances: Number of instances, or several numbers to try; ``None`` for all numbers up to
            the number of cores, and on more than four cores only powers of two and that number.
        threads: Number of threads of each instance, or several; ``None`` as for ``instances``.
        latency_bound_ms: Bound on the scenario's percentile of the latency, in milliseconds. The
            server scenario needs it. In the others, only n x m that keep it may be the best.
        duration_s: Minimum seconds of a load with ``end_to_end``; ``None`` for 10.
        end_to_end: Whether to put the whole models under load too, for comparison.
        granularity: As for :func:`time`.
        split: As for :func:`time`.
        composer: As for :func:`time`.
        protocol: As in :class:`Measuring`.
        seed: Seed of weights, inputs and arrivals; ``None`` for 0.
        timeout_s: As in :class:`Measuring`.
        force: Whether to repeat measurements that the store holds.
        stored: Whether to run nothing: what the store does not hold is predicted. The framework
            need not be installed. Loads of whole models are told where the store holds them.
        predictor: As for :func:`estimate`, if ``stored``.
        system: As for :func:`estimate`, if ``stored``.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong, or there are too few cores.
        ModelError: If a model cannot be read. A load that fails is no error: ``failures`` of the
            result names it.

    Examples:
        >>> served = serve("resnet.onnx", "server", backend="onnxruntime", latency_bound_ms=50)
        ... # doctest: +SKIP
        >>> served.best  # doctest: +SKIP
        {'resnet': {'instances': 2, 'threads': 4}}
    """
    given = checked(
        scenario=scenario,
        instances=instances,
        several_threads=threads,
        latency_bound_ms=latency_bound_ms,
        duration_s=duration_s,
        end_to_end=end_to_end,
    )
    measuring = Measuring(protocol=protocol, seed=seed, timeout_s=timeout_s, force=force)
    cutting = cut_options(granularity, split, composer)
    load = {_ASKED.get(name, name): value for name, value in given.items()}
    told = checked(predictor=predictor, system=system)
    if not checked(stored=stored).get("stored"):
        refuse_stored(told)
        asked = Asked.of(**load)
        measuring["threads"] = asked.placements[-1].threads
        request = request_of(backend, backend_options, measuring)
        every = models_of(models)
        with opened_store(store) as opened:
            return Served(run_scenario(every, asked, request, opened, Observer(), cutting))
    if end_to_end or force:
        raise DLBricksError(
            f"{settings(stored=True)} runs nothing",
            hint=f"Leave {argument('end_to_end')} and {argument('force')} out: loads of whole "
            "models are told where the store holds them.",
        )
    with opened_store(store, writes=False) as opened:
        target, there = at_system(opened, told.get("system"))
        setups = partial(known_setups, there, backend)
        request = request_of(backend, backend_options, measuring, target, setups)
        asked = Asked.of(**load, cores=request.target.available_cores)
        name = told.get("predictor", PREDICTOR)
        predicting = None if name == NO_PREDICTOR else name
        every = models_of(models)
        return Served(estimate_scenario(every, asked, request, there, predicting, cutting))


_ASKED = {"several_threads": "threads", "latency_bound_ms": "bound_ms", "duration_s": "seconds"}
"""Names of arguments in the library, where they differ."""


@dataclass(frozen=True, repr=False)
class Served(MeasuredResult):
    """Throughput and latencies of instances of models in a scenario.

    Attributes:
        result: Result of the workflow.
    """

    result: UnderLoad

    @property
    def best(self) -> dict[str, dict[str, int] | None]:
        """The best ``instances`` and ``threads`` of each model; ``None`` if none keeps the bound.

        The best n x m has the highest throughput, and in scenarios of streams the lowest percentile
        of the latency.
        """
        return {each["name"]: each["best"] for each in self._data["scenarios"]}

    @property
    def notes(self) -> list[str]:
        """Remarks on what predictions rest on, and why to doubt them."""
        return list(self.result.notes)

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, such as a machine that was busy."""
        return warnings_of(self.result)

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks run`` with a scenario."""
        return scenario_data(self.result)

    def rows(self) -> Rows:
        """One row for each model and n x m, with measured figures, or else composed or predicted.

        ``low`` and ``high`` are the ends of the throughput's 90% interval. ``tail_low_ms`` and
        ``tail_high_ms`` are those of the 90% interval of the scenario's percentile.
        """
        return [
            _row(model["name"], placed, _placement(placed) == model["best"])
            for model in self._data["scenarios"]
            for placed in model["placements"]
        ]

    def _page(self) -> str:
        return report.scenario_page(told(self.result))

    def __repr__(self) -> str:
        asked = self.result.asked
        told = listed(best_in_words(each, asked) for each in self.result.models)
        return f"<Served in the {asked.scenario} scenario: {told}>"


def _placement(placed: Mapping[str, Any]) -> dict[str, int]:
    return {name: placed[name] for name in ("instances", "threads")}


_FIGURES = ("p50_ms", "p90_ms", "p99_ms", "holds")


def _row(name: str, placed: Mapping[str, Any], is_best: bool) -> dict[str, Any]:
    """Row for one n x m. An interval becomes two columns."""
    measured, composed = placed["measured"], placed["composed"]
    figures = measured or composed or {}
    low, high = figures.get("throughput_interval") or (None, None)
    tail_low, tail_high = figures.get("tail_interval_ms") or (None, None)
    known = "predicted" if placed["predicted"] else "bricks"
    origin = "stored" if measured and measured["stored"] else "measured" if measured else known
    return {
        "name": name,
        **_placement(placed),
        "origin": origin if figures else None,
        "throughput": figures.get("throughput"),
        "low": low,
        "high": high,
        **{each: figures.get(each) for each in _FIGURES},
        "tail_low_ms": tail_low,
        "tail_high_ms": tail_high,
        "best": is_best,
        "throughput_error": placed["throughput_error"],
        "tail_error": placed["tail_error"],
    }
