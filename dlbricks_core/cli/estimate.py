"""``dlbricks estimate``: composes from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlbricks_core import report
from dlbricks_core.cli import given, loads, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.report import print_run, run_data
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import (
    NO_PREDICTOR,
    CutOptions,
    Invocation,
    LoadedModels,
    ModelsAtSizes,
    Observer,
    Request,
    at_system,
    default_predictor,
    estimate,
    known_setups,
    load_asked,
    protocol_of,
)
from dlbricks_core.workflows.carried import place_of, read_results

if TYPE_CHECKING:
    from dlbricks_core.workflows.scenarios.run import UnderLoad


@click.command("estimate")
@options.models_argument
@measuring.quantity_option
@measuring.known_options
@loads.pattern_options
@measuring.sizes_options
@click.option(
    "--system",
    metavar="SYSTEM",
    help="Estimate for another system, of the store or of the atlas: its name, the start of its "
    "fingerprint ('dlbricks systems list' shows both), or its microarchitecture (zen4).",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    multiple=True,
    help="Estimate from what 'dlbricks bench --results' wrote elsewhere, not from a store. May be "
    "given more than once.",
)
@options.key_option
@measuring.predictor_option
@options.result_options
def command(
    models: tuple[str, ...],
    system: str | None,
    results: tuple[Path, ...],
    key: Path | None,
    predictor: str | None,
    store: str | None,
    scenario: str | None,
    **values: Any,
) -> int:
    """Estimate from what is known; runs nothing, and needs no framework.

    Figures of bricks come from the store, and from a predictor where the store has none. With
    --scenario so do throughput and tail latency of instances of a MODEL.
    """
    if scenario is not None:
        if key is not None or results:
            raise click.UsageError("--key and --results are not for --scenario.")
        return _under_load(models, scenario, system, predictor, store, values)
    loads.check_no_scenario(values)
    values["threads"] = loads.one_number(values["threads"])
    sizes = given.sizes_of(values)
    if key is not None:
        if models or not results or sizes:
            raise click.UsageError(
                "--key goes with --results, and without MODELs and sizes: it has them."
            )
        predictor = predictor or NO_PREDICTOR
    elif not models:
        raise click.UsageError("Name at least one MODEL.")
    if results and store is not None:
        raise click.UsageError("--results and --store exclude each other.")
    output = Output(values)
    load = given.load_options_of(values)
    asked = any(values[name] is not None for name in ("granularity", "strategy", "composer"))
    with output.progress() as progress, _opened(results, store) as opened:
        request = _request_elsewhere(opened, system, values) if results else None
        target, there = at_system(opened, system)
        if request is None:
            setups = partial(known_setups, there, values["backend"])
            request = given.request_of(values, target, setups)
        cut: CutOptions | None
        loaded: LoadedModels | ModelsAtSizes
        if key is not None:
            from dlbricks_core.workflows.private import unlocked

            models_of_key, cut = unlocked(key, request, opened)
            loaded = LoadedModels(models_of_key, [])
        else:
            settings = given.import_settings_of(values)
            loaded = load_asked(models, sizes, load, progress, settings)
            cut = given.cut_options_of(values) if asked else None
        result = estimate(
            loaded.models,
            cut,
            request,
            there,
            _predictor(predictor, request),
        )
    result = loaded.told(result)
    print_run(output.console, result)
    invocation = partial(
        Invocation.of, "estimate", loaded.models, end_to_end=False, cut_by_store=not asked
    )
    output.write_record(lambda: run_data(result, load, invocation()))
    output.write_html(lambda: report.run_page(result, load))
    return EXIT_PARTIAL if result.failures else 0


def _under_load(
    models: tuple[str, ...],
    scenario: str,
    system: str | None,
    predictor: str | None,
    store: str | None,
    values: dict[str, Any],
) -> int:
    """Prints the figures of models in a scenario."""
    from dlbricks_core.report.scenarios.data import scenario_data
    from dlbricks_core.report.scenarios.words import told
    from dlbricks_core.workflows.scenarios.estimated import estimate_scenario

    cut_options = given.cut_options_of(values)

    def ready(
        opened: ResultStore,
    ) -> Callable[[Sequence[CanonicalModel], Observer], UnderLoad]:
        target, there = at_system(opened, system)
        setups = partial(known_setups, there, values["backend"])
        request = given.request_of({**values, "threads": None}, target, setups)
        asked = loads.asked_of(models, scenario, values, request.target.available_cores)
        named = _predictor(predictor, request)
        return lambda loaded, _observer: estimate_scenario(
            loaded, asked, request, there, named, cut_options
        )

    return loads.report(models, store, values, ready, told, scenario_data, writes=False)


def _opened(results: Sequence[Path], store: str | None) -> AbstractContextManager[ResultStore]:
    return read_results(results) if results else ResultStore.open(store, writes=False)


def _request_elsewhere(results: ResultStore, system: str | None, values: dict[str, Any]) -> Request:
    """Request for the place where the results were measured."""
    place = place_of(
        results,
        values["backend"],
        protocol=protocol_of(values["protocol"], values["quantity"]),
        system=system,
        threads=values["threads"],
        backend_options=given.backend_options_of(values),
    )
    request = given.request_of(values, place.system, measured=place.setup)
    # However little was measured there, it cannot be measured further here.
    return request if values["runs"] else replace(request, runs=1)


def _predictor(named: str | None, request: Request) -> str | None:
    """Name of the predictor; ``None`` for none."""
    if named is None:
        return default_predictor(request)
    return None if named == NO_PREDICTOR else named
