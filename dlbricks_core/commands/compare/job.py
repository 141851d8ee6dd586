"""Comparisons of backends: latencies of models and of their parts, and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlbricks_core.commands.compare.verification import Verdict, VerifyOptions, verify
from dlbricks_core.commands.options.jobs import (
    MeasuredJob,
    PreciseJob,
    opened,
    refuse_budget,
    requests_of_each,
)
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.approach import Approach, Wishes
from dlbricks_core.estimation.compare import check_backends, compare
from dlbricks_core.estimation.comparison import Comparison
from dlbricks_core.estimation.invocation import Invocation
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@dataclass(frozen=True, kw_only=True)
class CompareJob(MeasuredJob, PreciseJob):
    """Models and their parts on several backends, side by side."""

    backends: Sequence[str]  #: Names of the backends.
    #: Values of options that backends declare, by backend and name.
    backend_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    condition: str | None = None  #: Condition of the latencies.
    quantity: str | None = None  #: Name of the compared quantity.

    def run(self, store: str | ResultStore | None, observer: Observer) -> Done[Comparison]:
        """Compares the backends.

        Args:
            store: Path or URL of a store, an open store, or ``None`` for the user's own.
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, or no model can be read.
        """
        check_backends(self.backends)
        approach = Approach.of_comparison(Wishes.among(vars(self)))
        if approach.condition == "hot":
            refuse_budget(self)
        requests = requests_of_each(
            self, precision=approach.precision, condition=approach.condition
        )
        models = self.models.or_default()
        with opened(store) as there:
            loaded = models.load(observer)
            result = compare(loaded.models, approach.cut_options, requests, there, observer)
        invocation = Invocation.of("compare", loaded.models, end_to_end=True)
        return Done(replace(result, unread=loaded.failures), invocation=invocation)


@dataclass(frozen=True, kw_only=True)
class OutputsJob(VerifyOptions):
    """Outputs of models on several backends. No store is used."""

    models: Models  #: The models.
    backends: Sequence[str]  #: Names of the backends.
    #: Values of options that backends declare, by backend and name.
    backend_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    threads: int = 1  #: Threads that compute one operator.
    #: Maximum seconds to load a network, or to run it once; ``None`` for the default.
    timeout_s: float | None = None

    def run(self, observer: Observer) -> Done[Sequence[Verdict]]:
        """Compares the outputs.

        Args:
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, or no model can be read.
        """
        requests = requests_of_each(self)
        for each in requests:
            if each.backend.traits.blocks_only:
                raise DLBricksError(
                    f"{each.backend.name} runs blocks with weights of its own, so its outputs "
                    "cannot be compared",
                    hint="Leave it out.",
                )
        loaded = self.models.or_default().load(observer)
        return Done(verify(loaded.models, requests, self, observer), loaded.failures)
