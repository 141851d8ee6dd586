"""Jobs of ``dlbricks private``, which its commands and its functions both run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbricks_suite.folder import Suite, check_unused

from dlbricks_core.commands.options.given import open_request
from dlbricks_core.commands.options.invocation import Invocation
from dlbricks_core.commands.options.jobs import PreciseJob, SetupJob, request_elsewhere
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.results_files import read_results
from dlbricks_core.commands.options.systems import at_system
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.without_runs import NO_PREDICTOR, estimate
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.wording import argument
from dlbricks_private import suites
from dlbricks_private.exposure import Privacy, privacy


@dataclass(frozen=True)
class WrittenPrivateSuite:
    """A private suite that was written."""

    suite: Suite  #: The bricks, decoys among them.
    hidden: suites.Hidden  #: Bricks of the models among the decoys.
    key: Path  #: File of the key.


@dataclass(frozen=True, kw_only=True)
class PrivateGenerateJob:
    """Bricks of secret models among decoys, and the key with the models."""

    models: Models  #: The models.
    folder: Path  #: Folder to write to; it must not hold a suite already.
    granularity: int | None = None  #: Maximum number of layers in a brick.
    split: str | None = None  #: Name of the split strategy.
    backend: str | None = None  #: Framework that the bricks are for; ``None`` for any.
    decoys: int = suites.DECOYS  #: Number of decoys for each brick.
    decoys_from: Sequence[str] = ()  #: Models and collections of the decoys; empty for onnx's.
    key: Path | None = None  #: File for the key; ``None`` for one beside the folder.

    def run(self, observer: Observer) -> Done[WrittenPrivateSuite]:
        """Writes the suite and its key."""
        models = self.models.or_default()
        if self.decoys_from and not self.decoys:
            raise DLBricksError(
                f"{argument('decoys_from')} is for decoys", hint="Leave it out, or ask for decoys."
            )
        check_unused(self.folder)
        key = self.key or suites.key_beside(self.folder)
        loaded = models.load(observer)
        suite, hidden = suites.generate_private(
            loaded.models,
            suites.private_options(self.split, self.granularity),
            Request.of(self.backend) if self.backend else None,
            suites.published_models(self.decoys_from, observer) if self.decoys else [],
            self.decoys,
            self.folder,
            key,
            observer,
        )
        return Done(WrittenPrivateSuite(suite, hidden, key), loaded.failures)


@dataclass(frozen=True, kw_only=True)
class PrivateEstimateJob(SetupJob, PreciseJob):
    """Estimates of the models of a private suite from its results. Nothing runs."""

    key: Path  #: Key of the suite.
    results: Sequence[Path]  #: Files of results.
    quantity: str | None = None  #: Name of the estimated quantity.
    threads: int | None = None  #: Threads that compute one operator.
    condition: str | None = None  #: Condition of the latencies.
    #: Text that names the machine of the results; ``None`` where they are of one machine.
    system: str | None = None
    predictor: str | None = None  #: Name of the predictor of bricks that the results lack.

    def run(self) -> Done[RunResult]:
        """Estimates the models."""
        with read_results(self.results) as every:
            request = request_elsewhere(every, self.system, open_request(vars(self)))
            _, there = at_system(every, self.system)
            models, cut = suites.unlocked(self.key, request, every)
            named = None if self.predictor == NO_PREDICTOR else self.predictor
            result = estimate(models, cut, request, there, named)
        invocation = Invocation.of(
            "estimate", models, end_to_end=False, measures=False, cut_by_store=True
        )
        return Done(result, invocation=invocation)


@dataclass(frozen=True, kw_only=True)
class AttackJob:
    """Attacks on a private suite in every way that is known here."""

    folder: Path  #: The suite.
    key: Path  #: Its key.
    published: Sequence[str] = ()  #: Models that attackers know; empty for those of onnx.

    def run(self, observer: Observer) -> Privacy:
        """Attacks the suite."""
        known = suites.published_models(self.published, observer)
        return privacy(self.folder, self.key, known, observer)
