"""What a model consists of: layers and bricks, repeats, a picture. Nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.options.models import Models
from dlbricks_core.compose.options import PAPER_COMPOSER, CutOptions
from dlbricks_core.facts import Failure
from dlbricks_core.progress import Observer

if TYPE_CHECKING:
    from dlbricks_core.analysis import Analysis
    from dlbricks_core.estimation.layers import LayerLatencies
    from dlbricks_core.ir import CanonicalModel
    from dlbricks_core.store import ResultStore


@dataclass(frozen=True)
class ShownBricks:
    """Models cut into bricks.

    Attributes:
        bricks: The models and their bricks.
        failures: Models that could not be read.
    """

    bricks: BrickSet
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class ShowLayersJob:
    """Layers and bricks of models.

    Attributes:
        models: The models.
        granularity: Maximum number of layers in a brick; ``None`` for the paper's.
        split: Name of the split strategy; ``None`` for the paper's.
    """

    models: Models
    granularity: int | None = None
    split: str | None = None

    def run(self, observer: Observer) -> ShownBricks:
        """Cuts the models.

        Args:
            observer: Receives the progress.

        Raises:
            DLBricksError: If no model can be read.
        """
        loaded = self.models.or_default().load(observer)
        cut = CutOptions.chosen(self.granularity, self.split, PAPER_COMPOSER)
        bricks = BrickSet.of(loaded.models, cut.granularity, cut.strategy)
        return ShownBricks(bricks, loaded.failures)


@dataclass(frozen=True)
class ShownRepeats:
    """Repetition in models.

    Attributes:
        analysis: Repeated layers, and similarity of the models.
        failures: Models that could not be read.
    """

    analysis: Analysis
    failures: Sequence[Failure]


@dataclass(frozen=True, kw_only=True)
class ShowRepeatsJob:
    """Layers that repeat within and across models.

    Attributes:
        models: The models.
    """

    models: Models

    def run(self, observer: Observer) -> ShownRepeats:
        """Compares the layers. Arguments and errors are those of :meth:`ShowLayersJob.run`."""
        from dlbricks_core.analysis import analyze

        loaded = self.models.or_default().load(observer)
        return ShownRepeats(analyze(loaded.models), loaded.failures)


@dataclass(frozen=True)
class ShownModel:
    """A model to draw.

    Attributes:
        model: In canonical form.
        latencies: Latencies of its layers; ``None`` where none were requested.
    """

    model: CanonicalModel
    latencies: LayerLatencies | None = None


@dataclass(frozen=True, kw_only=True)
class ShowOperationsJob:
    """A model whose critical path has the most floating-point operations.

    Attributes:
        models: The single model.
    """

    models: Models

    def run(self, observer: Observer) -> ShownModel:
        """Loads the model. Arguments and errors are those of :meth:`ShowLayersJob.run`."""
        return ShownModel(self.models.load_one(observer))


@dataclass(frozen=True, kw_only=True)
class ShowLatenciesJob:
    """A model whose critical path takes longest by stored latencies.

    Attributes:
        models: The single model.
        backend: Name of the backend.
        backend_options: Values of options that the backend declares, by name.
        threads: Threads that compute one operator; ``None`` for all physical cores.
        protocol: Name of the protocol; ``None`` for the default.
        runs: Minimum runs of a layer whose latency counts; ``None`` for a few.
        system: Text that names the machine of the latencies; ``None`` for this one.
    """

    models: Models
    backend: str
    backend_options: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    protocol: str | None = None
    runs: int | None = None
    system: str | None = None

    def run(self, store: str | ResultStore | None, observer: Observer) -> ShownModel:
        """Looks up the latencies of the layers.

        Args:
            store: Path or URL of a store, an open store, or ``None`` for the user's own.
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, or the model cannot be read.
        """
        # Pictures without latencies come sooner without this code.
        from dlbricks_core.commands.options.given import open_request
        from dlbricks_core.commands.options.jobs import opened
        from dlbricks_core.estimation.layers import layer_latencies
        from dlbricks_core.estimation.systems import at_system
        from dlbricks_core.measure.known_setups import known_setups
        from dlbricks_core.measure.request import Request

        model = self.models.load_one(observer)
        with opened(store, writes=False) as every:
            target, there = at_system(every, self.system)
            setups = partial(known_setups, there, self.backend)
            request = Request.of(**open_request(vars(self)), system=target, known=setups)
            return ShownModel(model, layer_latencies(model, request, there))
