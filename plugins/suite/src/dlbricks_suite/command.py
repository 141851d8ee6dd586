"""``dlbricks suite``: writes a suite for another machine, and times one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.estimate.data import run_data
from dlbricks_core.commands.options import given, kinds, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.jobs import PreciseJob, SetupJob, opened, refuse
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_suite.folder import Suite, check_unused
from dlbricks_suite.report import print_bench
from dlbricks_suite.results import written_results
from dlbricks_suite.timing import bench
from dlbricks_suite.writing import generate, generated_data, print_generated


@dataclass(frozen=True, kw_only=True)
class SuiteWriteJob:
    """A suite for another machine."""

    models: Models  #: The models.
    folder: Path  #: Folder to write to; it must not hold a suite already.
    #: Maximum number of layers in a brick. With it, or with ``split``, the suite holds the paper's
    #: bricks, and otherwise the structures of the models.
    granularity: int | None = None
    split: str | None = None  #: Name of the split strategy.
    seed: int | None = None  #: Seed of the weights of the paper's bricks; ``None`` for 0.

    def run(self, observer: Observer) -> Done[Suite]:
        """Writes the suite."""
        models = self.models.or_default()
        cut = None
        if (self.granularity, self.split) != (None, None):
            cut = CutOptions.chosen(self.granularity, self.split, None)
        else:
            few, split = argument("granularity"), argument("split")
            hint = f"Leave {{}} out, or add {few} or {split}."
            refuse(self, ["seed"], "is for bricks: structures of models have no weights", hint)
        check_unused(self.folder)
        loaded = models.load(observer)
        suite = generate(loaded.models, cut, self.folder, self.seed or 0, observer)
        return Done(suite, [*loaded.failures, *suite.omitted])


@dataclass(frozen=True)
class TimedSuite:
    """Times of a suite."""

    result: RunResult  #: The times.
    location: str  #: Place of the samples, as users know it.


@dataclass(frozen=True, kw_only=True)
class SuiteTimeJob(SetupJob, PreciseJob):
    """Times of the bricks of a suite."""

    folder: Path  #: The suite.
    quantity: str | None = None  #: Name of the quantity; ``None`` for latency.
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    #: File for the samples in place of a store; what it holds is not measured again.
    results: Path | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> TimedSuite:
        """Times the suite."""
        request = self.request()
        with self._opened(store) as there:
            result = bench(self.folder, request, there, observer)
            return TimedSuite(result, str(self.results or there.place))

    def _opened(self, store: str | ResultStore | None) -> AbstractContextManager[ResultStore]:
        if self.results is None:
            return opened(store)
        if store is not None:
            raise DLBricksError(
                f"{argument('results')} and {argument('store')} exclude each other",
                hint="Leave one of them out.",
            )
        return written_results(self.results)


@click.command("bench", cls=Concise)
@click.argument("bricks", metavar="FOLDER", type=click.Path(path_type=Path))
@shared.quantity_option
@shared.measure_options
@shared.timeout_option
@shared.timing_options
@option("results", kind=kinds.PATH,
        help="Write measurements to a file that 'dlbricks estimate --results' reads, instead of a "
        "store. Measurements that the file already has are not repeated.")  # fmt: skip
@shared.store_option
@shared.json_option
@shared.table_options
def time_command(bricks: Path, store: str | None, **values: Any) -> int:
    """Time the suite in FOLDER, which 'dlbricks suite write' wrote.

    No whole model is timed. Interrupt it as you like: the same command goes on where it ended.
    """
    output = Output(values)
    job = given.job_of(SuiteTimeJob, (), values, folder=bricks)
    with output.progress() as progress:
        timed = job.run(store, progress)
    print_bench(output.console, timed.result)
    output.console.print(f"Stored in {timed.location}", soft_wrap=True)
    output.write_json(run_data(timed.result))
    return 0 if timed.result.is_sound else EXIT_PARTIAL


@click.command("generate", cls=Concise)
@shared.models_argument
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False),
              required=True, help="Folder to write to.")  # fmt: skip
@shared.cut_options
@shared.load_options_beside_a_file
@option("seed", help="Seed of the weights.")
@shared.json_option
@shared.quiet_options
def write_command(models: tuple[str, ...], **values: Any) -> int:
    """Pack what another machine needs to time MODELs, without their weights.

    The folder holds the structures of the MODELs and a manifest. Time it on any machine, with any
    framework: 'dlbricks suite time FOLDER --backend NAME --results FILE'. Then estimate on yours:
    'dlbricks estimate MODEL... --backend NAME --results FILE'.

    With -G or --split, the folder holds the paper's bricks instead: ONNX files that
    reveal neither a brick's model nor the order of bricks.
    """
    output = Output(values)
    job = given.job_of(SuiteWriteJob, models, values)
    with output.progress() as progress:
        done = job.run(progress)
    print_generated(output.console, done.result, job.folder, done.failures)
    output.write_json(generated_data(done, job, job.models.options))
    return EXIT_PARTIAL if done.failures else 0
