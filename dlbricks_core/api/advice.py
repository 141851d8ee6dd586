"""Advice of the API: on which system, and with which framework, models are best."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from dlbricks_core.api.arguments import checked
from dlbricks_core.api.inputs import Sources, Store, models_of, opened_store, sources_of
from dlbricks_core.api.results import AdviceResult
from dlbricks_core.errors import DLBricksError
from dlbricks_core.scenarios import Scenario
from dlbricks_core.wording import argument
from dlbricks_core.workflows import (
    NO_PREDICTOR,
    PREDICTOR,
    Generation,
    LoadedModels,
    LoadOptions,
    Observer,
    jobs_of,
    read_asked,
)
from dlbricks_core.workflows import advise as advising
from dlbricks_core.workflows.advice import Wanted, order_by
from dlbricks_core.workflows.places import places
from dlbricks_core.workflows.requirements import Requirement
from dlbricks_core.workflows.tariff import Accuracies, Prices


def advise(
    models: Sources,
    *,
    max_latency_ms: float | None = None,
    require: Sequence[str] = (),
    on: Sequence[str] = (),
    backends: Sequence[str] = (),
    by: str | None = None,
    prices: str | os.PathLike[str] | None = None,
    accuracies: str | os.PathLike[str] | None = None,
    min_accuracy: float | None = None,
    predictor: str | None = None,
    store: Store = None,
    prompt: int | None = None,
    generate: int | None = None,
    batch: int | None = None,
    scenario: str | None = None,
) -> AdviceResult:
    """Tells on which system, and with which framework, models are best.

    The best alternative has the lowest latency, the lowest price, or the least of another quantity.
    Nothing is run. Latencies that were not measured are predicted.

    With ``prompt`` or ``generate``, language models are compared by their answers. Latency is then
    the total time of an answer, and prices are those of a million output tokens.

    With ``scenario``, systems are compared under a load, with each number of instances that fits.
    What :func:`serve` did not measure there is predicted. Latency is then the scenario's percentile
    of it.

    Args:
        models: One or several, as :func:`load` takes them, or :func:`answer` if they answer.
        max_latency_ms: Longest latency of a run, percentile of it under load, or total time of an
            answer, that is allowed; ``None`` for any. The server scenario needs it.
        require: Bounds of other quantities, such as ``"peak-memory<=500MiB"``, or of an answer
            ``"time-per-output-token<=100ms"``.
        on: Only these systems: beginnings of fingerprints, or names of processors; none for all of
            the store.
        backends: Only these frameworks; none for all of the store.
        by: Quantity whose best value comes first: ``"latency"``, ``"price"``, the name of a
            quantity that has a probe, of an answer ``"time-to-first-token"`` or
            ``"time-per-output-token"``, or under load ``"throughput"``; ``None`` for the price if
            there are ``prices``, and for the latency or the scenario's figure otherwise.
        prices: TOML file with prices of systems.
        accuracies: TOML file with accuracies of the models, which are alternatives then.
        min_accuracy: Least accuracy that is allowed.
        predictor: As for :func:`estimate`.
        store: As for :func:`time`.
        prompt: Tokens of the prompt; ``None`` for those of :func:`answer` if ``generate`` is given.
        generate: Output tokens; ``None`` for those of :func:`answer` if ``prompt`` is given.
        batch: Inferences that one run makes, or requests that are computed together; ``None`` for
            1.
        scenario: As for :func:`serve`; ``None`` for single runs.

    Raises:
        DLBricksError: If an argument is wrong, or there is no place to advise on. A model of which
            too little is known is not an error: ``failures`` of the result names it.
        ModelError: If a model cannot be read.
    """
    given = checked(
        max_latency_ms=max_latency_ms, require=require, on=on, compared=backends, prices=prices,
        accuracies=accuracies, min_accuracy=min_accuracy, predictor=predictor, by=by,
    )  # fmt: skip
    load = None if scenario is None else Scenario(checked(scenario=scenario)["scenario"])
    sizes = checked(batch=batch)
    asked = _answer_of(checked(prompt=prompt, generate=generate), sizes)
    workload = asked.workloads[0] if asked else None
    priced = Prices.read(given["prices"]) if "prices" in given else None
    wanted = Wanted(
        max_latency_ms=given.get("max_latency_ms"),
        min_accuracy=given.get("min_accuracy"),
        prices=priced,
        accuracies=Accuracies.read(given["accuracies"]) if "accuracies" in given else None,
        batch=sizes.get("batch") or 1,
        requirements=[Requirement.read(text) for text in given["require"]],
        by=order_by(given["by"], priced, workload, load) if "by" in given else None,
        workload=workload,
        scenario=load,
    )
    loaded = (
        LoadedModels(models_of(models, LoadOptions(**sizes)), [])
        if asked is None
        else read_asked(sources_of(models), asked, LoadOptions())
    )
    jobs = jobs_of(loaded, workload)
    name = given.get("predictor", PREDICTOR)
    predicting = None if name == NO_PREDICTOR else name
    with opened_store(store, writes=False) as opened:
        where = places(
            opened,
            given["on"],
            given["compared"],
            wanted.probes,
            under_load=load is not None,
            predicts=predicting is not None,
        )
        return AdviceResult(advising.advise(jobs, where, wanted, opened, Observer(), predicting))


def _answer_of(
    tokens: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]
) -> Generation | None:
    """The answer that advice is asked for; ``None`` without numbers of tokens."""
    if not tokens:
        return None
    asked = Generation({**tokens, **{name: (size,) for name, size in sizes.items()}})
    if len(asked.workloads) > 1:
        raise DLBricksError(
            "advice is for one workload",
            hint=f"Ask for each {argument('prompt')} and {argument('generate')} by itself.",
        )
    return asked
