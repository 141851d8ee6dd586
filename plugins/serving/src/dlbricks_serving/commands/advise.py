"""``dlbricks advise``: which system, and which model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
from dlbricks_sizes.options import answer_of

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.commands.options.settings import options as options_of
from dlbricks_serving.advice.job import AdviseJob
from dlbricks_serving.advice.report.data import advice_data
from dlbricks_serving.advice.report.page import advice_page
from dlbricks_serving.advice.report.terminal import print_advice
from dlbricks_serving.settings import FILES, PLACES, SCENARIO


@click.command("advise", cls=Concise)
@shared.models_argument
@options_of(*PLACES, *FILES)
@option(
    SCENARIO,
    required=False,
    help="Compare instances under a load, as 'dlbricks serve --measure' measured it, or predicted. "
    "Latency is the scenario's percentile then.",
)
@shared.predictor_option
@shared.load_options
@shared.answer_options
@shared.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Rank systems, and models, by latency, price or another quantity. Runs nothing.

    Systems, frameworks and threads come from the store; if it has none, this machine with its
    installed frameworks is used. A model that was not measured there is predicted. With --prompt or
    --generate, language models are compared by the total time of their answer, which counts as
    their latency. With --scenario, places are compared with each number of instances that fits
    there. Exit status 3: the latency of a model, or a quantity that --require or --by names, is
    unknown in some place, or nothing keeps a bound; it is reported.
    """
    output = Output({**values, "store": store})
    chosen = replace(given.models_of(models, values), sizes=answer_of(values))
    job = given.job_of(AdviseJob, models, values, models=chosen)
    with output.progress() as progress:
        advice = job.run(store, progress)
    print_advice(output.console, advice)
    output.write_json(advice_data(advice))
    output.write_html(lambda: advice_page(advice))
    return 0 if advice.is_complete and not advice.unread else EXIT_PARTIAL
