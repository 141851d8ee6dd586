"""The Python API: the commands ``serve`` and ``advise`` as functions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_sizes import Generation, of_task

from dlbricks_core.api.inputs import Sources, Store, checked, job_store, strict_models
from dlbricks_core.api.results import MeasuredResult, Result, Rows, named
from dlbricks_core.importers import LoadOptions
from dlbricks_core.progress import Observer
from dlbricks_core.report.files import write_text
from dlbricks_core.report.notes import text
from dlbricks_serving.advice.advice import Advice
from dlbricks_serving.advice.job import AdviseJob
from dlbricks_serving.advice.report.data import advice_data
from dlbricks_serving.advice.report.page import advice_page
from dlbricks_serving.serving.job import ServeJob
from dlbricks_serving.serving.report.data import scenario_data
from dlbricks_serving.serving.report.page import scenario_page
from dlbricks_serving.serving.report.words import best as best_in_words
from dlbricks_serving.serving.report.words import load_report
from dlbricks_serving.serving.report.words import warnings as warnings_of
from dlbricks_serving.serving.run import UnderLoad
from dlbricks_serving.settings import OWN


def serve(
    models: Sources,
    scenario: str,
    *,
    backend: str,
    instances: int | Sequence[int] | None = None,
    threads: int | Sequence[int] | None = None,
    max_latency_ms: float | None = None,
    duration_s: float | None = None,
    end_to_end: bool = False,
    granularity: int | None = None,
    split: str | None = None,
    composer: str | None = None,
    protocol: str | None = None,
    seed: int | None = None,
    timeout_s: float | None = None,
    force: bool | None = None,
    busy: str | None = None,
    measure: bool = False,
    predictor: str | None = None,
    system: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
) -> Served:
    """Throughput and tail latency of instances of models in a scenario of MLPerf.

    Figures come from the store and from predictions, and the framework need not be installed.
    With ``measure`` they are composed from bricks that are timed while other instances run. The
    time to measure them is fixed, so there is no argument for a precision or a number of runs.

    Args:
        models: One or several, as :func:`dlbricks.load` takes them.
        scenario: ``"offline"``, ``"server"``, ``"single-stream"`` or ``"multi-stream"``.
        backend: Name of the framework's plugin.
        instances: Number of instances, or several numbers to try; ``None`` for all numbers up to
            the number of cores, and on more than four cores only powers of two and that number.
        threads: Number of threads of each instance, or several; ``None`` as for ``instances``.
        max_latency_ms: Bound on the scenario's percentile of the latency, in milliseconds. The
            server scenario needs it. In the others, only n x m that keep it may be the best.
        duration_s: Minimum seconds of a load with ``end_to_end``; ``None`` for 10.
        end_to_end: Whether to put the whole models under load too, for comparison.
        granularity: As for :func:`dlbricks.time`.
        split: As for :func:`dlbricks.time`.
        composer: As for :func:`dlbricks.time`.
        protocol: As in :class:`dlbricks.Measuring`.
        seed: Seed of weights, inputs and arrivals; ``None`` for 0.
        timeout_s: As in :class:`dlbricks.Measuring`.
        force: Whether to repeat measurements that the store holds.
        busy: As in :class:`dlbricks.Measuring`.
        measure: Whether to time bricks while other instances run.
        predictor: As for :func:`dlbricks.estimate`.
        system: As for :func:`dlbricks.estimate`.
        store: As for :func:`dlbricks.time`.
        backend_options: As for :func:`dlbricks.time`.

    Raises:
        DLBricksError: If an argument is wrong, or there are too few cores.
        ModelError: If a model cannot be read. A load that fails is no error: ``failures`` of the
            result names it.

    Examples:
        >>> served = serve("resnet.onnx", "server", backend="onnxruntime", max_latency_ms=50)
        ... # doctest: +SKIP
        >>> served.best  # doctest: +SKIP
        {'resnet': {'instances': 2, 'threads': 4}}
    """
    given = checked(
        OWN,
        scenario=scenario,
        instances=instances,
        threads=threads,
        max_latency_ms=max_latency_ms,
        duration_s=duration_s,
        end_to_end=end_to_end,
        backend=backend,
        granularity=granularity,
        split=split,
        composer=composer,
        protocol=protocol,
        seed=seed,
        timeout_s=timeout_s,
        force=force,
        busy=busy,
        measure=measure,
        predictor=predictor,
        system=system,
    )
    job = ServeJob(models=strict_models(models), backend_options=backend_options or {}, **given)
    return Served(job.run(job_store(store), Observer()))


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
        return [text(each) for each in self.result.notes]

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, such as a machine that was busy."""
        return [text(each) for each in warnings_of(self.result)]

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks serve``."""
        return dict(scenario_data(self.result))

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
        return scenario_page(load_report(self.result))

    def __repr__(self) -> str:
        asked = self.result.asked
        best = named(best_in_words(each, asked) for each in self.result.models)
        return f"<Served in the {asked.scenario} scenario: {best}>"


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


def advise(
    models: Sources,
    *,
    max_latency_ms: float | None = None,
    require: Sequence[str] = (),
    systems: Sequence[str] = (),
    backends: Sequence[str] = (),
    by: str | None = None,
    prices: str | os.PathLike[str] | None = None,
    accuracies: str | os.PathLike[str] | None = None,
    min_accuracy: float | None = None,
    predictor: str | None = None,
    store: Store = None,
    prompt: int | None = None,
    generate: int | None = None,
    task: str | None = None,
    batch: int | None = None,
    scenario: str | None = None,
) -> AdviceResult:
    """System and framework with which models are best.

    The best alternative has the lowest latency, the lowest price, or the least of another quantity.
    Nothing is run. Latencies that were not measured are predicted.

    With ``prompt`` or ``generate``, language models are compared by their answers. Latency is then
    the total time of an answer, and prices are those of a million output tokens.

    With ``scenario``, systems are compared under a load, with each number of instances that fits.
    Figures that :func:`serve` did not measure there are predicted. Latency is then the scenario's
    percentile of it.

    Args:
        models: One or several, as :func:`dlbricks.load` takes them, or :func:`dlbricks.answer` if
            they answer.
        max_latency_ms: Longest latency of a run, percentile of it under load, or total time of an
            answer, that is allowed; ``None`` for any. The server scenario needs it.
        require: Bounds of other quantities, such as ``"peak-memory<=500MiB"``, or of an answer
            ``"time-per-output-token<=100ms"``.
        systems: Only these systems: beginnings of fingerprints, or names of processors; none for
            all of the store.
        backends: Only these frameworks; none for all of the store.
        by: Quantity whose best value comes first: ``"latency"``, ``"price"``, the name of a
            quantity that has a metric, of an answer ``"time-to-first-token"`` or
            ``"time-per-output-token"``, or under load ``"throughput"``; ``None`` for the price if
            there are ``prices``, and for the latency or the scenario's figure otherwise.
        prices: TOML file with prices of systems.
        accuracies: TOML file with accuracies of the models, which are alternatives then.
        min_accuracy: Least accuracy that is allowed.
        predictor: As for :func:`dlbricks.estimate`.
        store: As for :func:`dlbricks.time`.
        prompt: Tokens of the prompt; ``None`` for the default of :func:`dlbricks.answer` if
            ``generate`` is given.
        generate: Output tokens; ``None`` for the default of :func:`dlbricks.answer` if ``prompt``
            is given.
        task: As for :func:`dlbricks.answer`.
        batch: Inferences that one run makes, or requests that are computed together; ``None`` for
            1.
        scenario: As for :func:`serve`; ``None`` for single runs.

    Raises:
        DLBricksError: If an argument is wrong, or there is no place to advise on. A model of which
            too little is known is not an error: ``failures`` of the result names it.
        ModelError: If a model cannot be read.
    """
    # Without a scenario there are single runs; other functions have no default.
    load = {} if scenario is None else {"scenario": scenario}
    given = checked(
        OWN, max_latency_ms=max_latency_ms, require=require, systems=systems, backends=backends,
        prices=prices, accuracies=accuracies, min_accuracy=min_accuracy, predictor=predictor,
        by=by, **load,
    )  # fmt: skip
    sizes = checked(batch=batch)
    tokens = {**of_task(task), **checked(prompt=prompt, generate=generate)}
    batches = {name: (size,) for name, size in sizes.items()}
    asked = Generation({**tokens, **batches}) if tokens else None
    job = AdviseJob(models=strict_models(models, LoadOptions(**sizes), asked), **given)
    return AdviceResult(job.run(job_store(store), Observer()))


@dataclass(frozen=True, repr=False)
class AdviceResult(Result):
    """Places, and models if they are alternatives, the first first.

    Attributes:
        advice: Result of the workflow.
    """

    advice: Advice

    @property
    def failures(self) -> list[dict[str, str]]:
        """Models with unknown figures in some place (``where``), and why (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks advise``."""
        return dict(advice_data(self.advice))

    def rows(self) -> Rows:
        """One row for each alternative; a column for each required quantity."""
        return [
            {
                **{name: each[name] for name in _PLACE},
                each["quantity"]["name"]: each["estimate"],
                **{name: each[name] for name in _ADVISED},
                **{one["quantity"]["name"]: one["value"] for one in each["required"]},
            }
            for ranking in self.to_dict()["rankings"]
            for each in ranking["alternatives"]
        ]

    def to_html(self, path: str | Path) -> None:
        """Writes the report with plots as one HTML file.

        Raises:
            DLBricksError: If the file cannot be written.
        """
        write_text(advice_page(self.advice), Path(path))

    def __repr__(self) -> str:
        firsts = named(
            f"{each.name} on {each.first.alternative.place}"
            if each.first
            else f"{each.name} nowhere"
            for each in self.advice.rankings
        )
        return f"<AdviceResult: {firsts or 'nothing is known'}>"


_PLACE = ("model", "system", "backend", "threads", "instances", "basis")
"""Fields of an alternative that name it, as columns."""

_ADVISED = (
    "per_second", "price_per_million", "accuracy", "allowed", "keeps_probability",
    "first_probability",
)  # fmt: skip
"""Further fields of an alternative that are columns."""
