"""``dlbricks compare``: latencies and outputs of several frameworks."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.commands.compare.data import comparison_data
from dlbricks_core.commands.compare.job import CompareJob, OutputsJob
from dlbricks_core.commands.compare.page import comparison_page
from dlbricks_core.commands.compare.report import print_comparison
from dlbricks_core.commands.compare.verification_report import print_verification, verification_data
from dlbricks_core.commands.options import given, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.report import print_failures


@click.command("compare", cls=Concise)
@options.models_argument
@measuring.quantity_option
@measuring.measure_each_options
@options.cut_options
@options.load_options
@measuring.timing_options
@options.result_options
def latencies_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Time models on several frameworks: which is fastest, by how much, and in which parts.

    Each framework runs whole models as their users run them, in a process of its own; they take
    turns model by model. Profiles give the latencies of the parts between places where all
    frameworks cut a model. Stored measurements are not repeated.

    With --condition cold, whole models and segments of each framework's graphs are timed in the
    same rounds. With -G or --split the model's own layers are cut instead; these pay for
    conversions that whole models do not need.

    With --quantity something else than latency is compared, such as load time or peak memory.
    """
    output = Output({**values, "store": store})
    job = given.job_of(CompareJob, models, values)
    with output.progress() as progress:
        done = job.run(store, progress)
    load = job.models.options
    print_comparison(output.console, done.result)
    output.write_record(lambda: comparison_data(done.result, load, done.invocation))
    output.write_html(lambda: comparison_page(done.result, load))
    return 0 if done.result.is_sound else EXIT_PARTIAL


@click.command("verify", cls=Concise)
@options.models_argument
@measuring.verify_options
@options.load_options
@options.json_option
@options.table_options
def outputs_command(models: tuple[str, ...], **values: Any) -> int:
    """Run whole models on several frameworks and compare their outputs.

    All get the same random weights and inputs. If the backends agree with each other but not with
    the ONNX reference, a remark names this and the reference's known defects. Exit status 3:
    something disagrees, is unsupported, or fails, be it the ONNX reference.
    """
    output = Output(values)
    job = given.job_of(OutputsJob, models, values)
    with output.progress() as progress:
        done = job.run(progress)
    print_verification(output.console, done.result)
    print_failures(output.console, done.failures)
    output.write_record(lambda: verification_data(done, job))
    agree = all(each.agrees and not each.reference_failure for each in done.result)
    return 0 if agree and not done.failures else EXIT_PARTIAL
